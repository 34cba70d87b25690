"""A fraction over zero."""

from patching import attack, word

MESSAGE = """\
CAD5203: the elapsed part of a horizon is not in lowest terms
  expected: a fraction of 0 or more in lowest terms
  got:      0/0
  at:       section `nodes`, word 2"""


def hostile() -> bytes:
    return word("nodes", 3, 0)


if __name__ == "__main__":
    attack(hostile)
