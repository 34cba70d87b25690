"""An internal event that is always enabled."""

from patching import attack, golden, program

from cadence_runtime.host.program import Event

MESSAGE = """\
CAD5307: event `frame` at node 0 contradicts itself
  got:      more than 10000 internal events follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5307: event `frame` at node 1 contradicts itself
  got:      more than 10000 internal events follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5307: event `frame` at node 2 contradicts itself
  got:      more than 10000 internal events follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5307: event `frame` at node 3 contradicts itself
  got:      more than 10000 internal events follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5307: event `frame` at node 4 contradicts itself
  got:      more than 10000 internal events follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5307: event `frame` at node 5 contradicts itself
  got:      more than 10000 internal events follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5307: event `turn` at node 6 contradicts itself
  got:      more than 10000 internal events follow
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
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler
CAD5304: event `turn` at node 6 stands in the transition table
  expected: none: it cannot happen there
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return program(events=(*golden("cpu").program.events, Event("spin", internal=True)))


if __name__ == "__main__":
    attack(hostile)
