"""An op declares that it writes to a weight."""

from patching import attack, op

MESSAGE = """\
CAD5213: an op writes to a weight
  expected: scratch, inputs or leaves
  got:      storage 4
  at:       tape 1 (stage `step`), op 0"""


def hostile() -> bytes:
    return op(0, writes=(4, 5))


if __name__ == "__main__":
    attack(hostile)
