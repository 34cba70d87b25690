"""A stage repeats 2^60 times."""

from dataclasses import replace

from patching import attack, golden, program

MESSAGE = """\
CAD5307: event `frame` at node 0 contradicts itself
  got:      more than 100000 stage runs follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5307: event `frame` at node 1 contradicts itself
  got:      more than 100000 stage runs follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5307: event `frame` at node 2 contradicts itself
  got:      more than 100000 stage runs follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5307: event `frame` at node 3 contradicts itself
  got:      more than 100000 stage runs follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5307: event `frame` at node 4 contradicts itself
  got:      more than 100000 stage runs follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5307: event `frame` at node 5 contradicts itself
  got:      more than 100000 stage runs follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `frame` at node 0 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `turn` at node 0 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `frame` at node 1 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `turn` at node 1 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `frame` at node 2 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `turn` at node 2 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `frame` at node 3 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `turn` at node 3 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `frame` at node 4 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `turn` at node 4 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `frame` at node 5 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `turn` at node 5 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return program(stages=(replace(golden("cpu").program.stages[0], repeat=("i", 2**60)),))


if __name__ == "__main__":
    attack(hostile)
