"""A fill begins in the arena and ends behind it."""

from patching import attack, fill

MESSAGE = """\
CAD5702: a fill lies outside of the arena
  expected: within 7936 bytes
  got:      bytes 7932 to 7940
  at:       graph 1, node 11"""


def hostile() -> bytes:
    return fill(7932, width=2)


if __name__ == "__main__":
    attack(hostile)
