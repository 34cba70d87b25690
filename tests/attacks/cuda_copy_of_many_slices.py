"""A copy of 2^40 slices."""

from patching import attack, node

MESSAGE = """\
CAD5702: a copy lies outside of the arena
  expected: within 7936 bytes
  got:      bytes 6912 to 70368744184576
  at:       graph 1, node 8"""


def hostile() -> bytes:
    return node(8, depth=2**40, source_pitch=64, source_height=1)


if __name__ == "__main__":
    attack(hostile)
