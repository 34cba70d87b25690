"""A launch with a gigabyte of shared memory."""

from patching import attack, node

MESSAGE = """\
CAD5706: a launch has dimensions that no device takes
  expected: a grid up to (2147483647, 65535, 65535), a block up to (1024, 1024, 64) and 1024 threads, 1048576 bytes
  got:      grid (2, 1, 1), block (2, 32, 1), 1073741824 bytes
  at:       graph 1, node 0"""


def hostile() -> bytes:
    return node(0, shared_bytes=1 << 30)


if __name__ == "__main__":
    attack(hostile)
