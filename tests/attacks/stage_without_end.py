"""A stage repeats 2^60 times."""

from dataclasses import replace

from patching import attack, golden, program

MESSAGE = """\
CAD5307: event `frame` at node 0 contradicts itself
  got:      more than 100000 stage runs follow
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return program(stages=(replace(golden("cpu").program.stages[0], repeat=("i", 2**60)),))


if __name__ == "__main__":
    attack(hostile)
