"""The first graph of a template launches a kernel that is not there."""

from patching import attack, number

from cadence_runtime.format.templates import KERNEL

LAST = -1
MESSAGE = """\
CAD5703: a kernel is not there
  expected: 0 to 9
  got:      99
  at:       graph 3, node 0"""


def hostile() -> bytes:
    return number(LAST, KERNEL, 99, other=False)


if __name__ == "__main__":
    attack(hostile)
