"""A launch with more threads than a block has."""

from patching import attack, node

MESSAGE = """\
CAD5706: a launch has dimensions that no device takes
  expected: a grid up to (2147483647, 65535, 65535), a block up to (1024, 1024, 64) and 1024 threads, 1048576 bytes
  got:      grid (2, 1, 1), block (1024, 2, 1), 448 bytes
  at:       graph 1, node 0"""


def hostile() -> bytes:
    return node(0, block=(1024, 2, 1))


if __name__ == "__main__":
    attack(hostile)
