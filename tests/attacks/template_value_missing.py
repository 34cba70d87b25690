"""A launch has a value that is not there."""

from patching import attack, number

from cadence_runtime.format.templates import VALUE

LAST = -1
MESSAGE = """\
CAD5202: a number of section `graphs` is out of range
  expected: a number of a graph from 0 to 1
  got:      99
  at:       section `graphs`, word 2859"""


def hostile() -> bytes:
    return number(LAST, VALUE, 99, other=False)


if __name__ == "__main__":
    attack(hostile)
