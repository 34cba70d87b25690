"""A byte stands behind the end."""

from patching import attack, unchanged

MESSAGE = """\
CAD5004: the plan goes on behind its end
  expected: 32704 bytes
  got:      32705 bytes"""


def hostile() -> bytes:
    return unchanged() + b"\0"


if __name__ == "__main__":
    attack(hostile)
