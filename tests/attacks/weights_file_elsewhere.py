"""A weight from a file that has no name."""

from patching import attack, item

MESSAGE = """\
CAD5503: weights are neither in the plan nor in a file
  expected: a weights file
  got:      none"""


def hostile() -> bytes:
    return item("weights", 0, blob=None)


if __name__ == "__main__":
    attack(hostile)
