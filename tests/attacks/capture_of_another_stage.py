"""A capture is said to be of a stage that its tape is not of."""

from patching import attack, key

MESSAGE = """\
CAD5505: a tape is of another stage
  expected: `other`
  got:      `step`
  at:       capture 1"""


def hostile() -> bytes:
    return key(stage="other")


if __name__ == "__main__":
    attack(hostile)
