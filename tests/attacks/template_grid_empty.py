"""The first graph of a template has a launch without blocks."""

from patching import attack, number

from cadence_runtime.format.templates import GRID_X

LAST = -1
MESSAGE = """\
CAD5706: a launch has dimensions that no device takes
  expected: a grid up to (2147483647, 65535, 65535), a block up to (1024, 1024, 64) and 1024 threads, 1048576 bytes
  got:      grid (0, 1, 1), block (2, 32, 1), 448 bytes
  at:       graph 3, node 0"""


def hostile() -> bytes:
    return number(LAST, GRID_X, 0, other=False)


if __name__ == "__main__":
    attack(hostile)
