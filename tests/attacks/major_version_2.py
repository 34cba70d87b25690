"""The header says format 2.0."""

from patching import attack, header

MESSAGE = """\
CAD5005: the plan is of a newer format
  expected: format 1.2
  got:      format 2.0
  hint:     update cadence-runtime"""


def hostile() -> bytes:
    return header(lambda data: data.__setitem__(8, 2))


if __name__ == "__main__":
    attack(hostile)
