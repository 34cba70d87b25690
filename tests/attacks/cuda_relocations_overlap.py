"""Two relocations share bytes."""

from patching import attack, relocation

MESSAGE = """\
CAD5704: two relocations share bytes
  expected: 8 bytes of its own
  got:      bytes 0 and 4
  at:       graph 1, node 0"""


def hostile() -> bytes:
    return relocation(1, word=4)


if __name__ == "__main__":
    attack(hostile)
