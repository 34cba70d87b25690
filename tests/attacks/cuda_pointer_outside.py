"""A launch points behind the arena."""

from patching import attack, relocation

MESSAGE = """\
CAD5702: a pointer lies outside of the arena
  expected: within 7936 bytes
  got:      bytes 1099511627776 to 1099511627776
  at:       graph 1, node 0"""


def hostile() -> bytes:
    return relocation(0, offset=1 << 40)


if __name__ == "__main__":
    attack(hostile)
