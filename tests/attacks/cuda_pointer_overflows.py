"""A launch points where addresses overflow."""

from patching import attack, relocation

MESSAGE = """\
CAD5702: a pointer lies outside of the arena
  expected: within 7936 bytes
  got:      bytes 9223372036854775807 to 9223372036854775807
  at:       graph 1, node 0"""


def hostile() -> bytes:
    return relocation(0, offset=2**63 - 1)


if __name__ == "__main__":
    attack(hostile)
