"""A row leads to a node that is not there."""

from patching import attack, word

MESSAGE = """\
CAD5202: a number of section `transitions` is out of range
  expected: a node from 0 to 6
  got:      7
  at:       section `transitions`, word 3"""


def hostile() -> bytes:
    return word("transitions", 3, 7)


if __name__ == "__main__":
    attack(hostile)
