"""The last byte is missing."""

from patching import attack, unchanged

MESSAGE = """\
CAD5003: the plan is cut short
  expected: 32704 bytes
  got:      32703 bytes
  hint:     copy it again"""


def hostile() -> bytes:
    return unchanged()[:-1]


if __name__ == "__main__":
    attack(hostile)
