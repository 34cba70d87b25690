"""A capture names a tape that is not there."""

from patching import attack, capture

MESSAGE = """\
CAD5504: a tape is not there
  expected: 0 to 13
  got:      14
  at:       capture 1"""


def hostile() -> bytes:
    return capture(tape=14)


if __name__ == "__main__":
    attack(hostile)
