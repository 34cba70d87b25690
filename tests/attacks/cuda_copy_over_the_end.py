"""A copy begins in the arena and ends behind it."""

from patching import attack, copied, relocation

MESSAGE = """\
CAD5702: a copy lies outside of the arena
  expected: within 7936 bytes
  got:      bytes 7928 to 7992
  at:       graph 1, node 8"""


def hostile() -> bytes:
    return relocation(copied(), offset=7928)


if __name__ == "__main__":
    attack(hostile)
