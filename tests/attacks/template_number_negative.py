"""A pointer of one graph of a template is negative."""

from patching import attack, number

from cadence_runtime.format.templates import OFFSET

LAST = -1
MESSAGE = """\
CAD5202: a number of section `graphs` is out of range
  expected: a number of a graph from 0 to 9223372036854775807
  got:      -1
  at:       section `graphs`, word 2859"""


def hostile() -> bytes:
    return number(LAST, OFFSET, -1, other=True)


if __name__ == "__main__":
    attack(hostile)
