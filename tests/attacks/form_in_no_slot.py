"""A form of a leaf lies in a slot that is not there."""

from patching import attack, item

MESSAGE = """\
CAD5502: a form of a leaf lies in no slot
  expected: a slot from 0 to 1
  got:      2
  at:       form 2"""


def hostile() -> bytes:
    return item("forms", 2, slot=2)


if __name__ == "__main__":
    attack(hostile)
