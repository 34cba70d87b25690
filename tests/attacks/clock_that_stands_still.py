"""A clock of 0 Hz: dividing by it."""

from fractions import Fraction

from patching import attack, program

from cadence_runtime.host.program import Clock

MESSAGE = """\
CAD5307: clock `frame` does not fit the rest of its program
  expected: a rate above 0
  got:      0 Hz
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return program(clocks=(Clock("frame", Fraction(0)),))


if __name__ == "__main__":
    attack(hostile)
