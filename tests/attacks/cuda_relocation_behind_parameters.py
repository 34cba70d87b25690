"""A relocation writes behind a launch's parameters."""

from patching import attack, relocation

MESSAGE = """\
CAD5704: a relocation is no word of its node
  expected: 8 bytes within 152
  got:      from byte 2147483648
  at:       graph 1, node 0"""


def hostile() -> bytes:
    return relocation(4, word=2**31)


if __name__ == "__main__":
    attack(hostile)
