"""A fill of 2^40 rows."""

from patching import attack, fill

MESSAGE = """\
CAD5702: a fill lies outside of the arena
  expected: within 7936 bytes
  got:      bytes 0 to 4398046511104
  at:       graph 1, node 11"""


def hostile() -> bytes:
    return fill(height=2**40, pitch=4)


if __name__ == "__main__":
    attack(hostile)
