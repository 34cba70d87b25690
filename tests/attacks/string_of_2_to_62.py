"""A string that is longer than the file."""

from patching import attack, word

MESSAGE = """\
CAD5202: a number of section `tapes` is out of range
  expected: the length of a string from 0 to 65536
  got:      4611686018427387904
  at:       section `tapes`, word 1"""


def hostile() -> bytes:
    return word("tapes", 1, 2**62)


if __name__ == "__main__":
    attack(hostile)
