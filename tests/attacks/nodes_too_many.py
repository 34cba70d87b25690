"""A table says that it has 2^62 rows."""

from patching import attack, word

MESSAGE = """\
CAD5202: a number of section `nodes` is out of range
  expected: a number of nodes from 0 to 7
  got:      4611686018427387904
  at:       section `nodes`, word 0"""


def hostile() -> bytes:
    return word("nodes", 0, 2**62)


if __name__ == "__main__":
    attack(hostile)
