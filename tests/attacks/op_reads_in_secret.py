"""An op does not declare what it reads."""

from patching import attack, op

MESSAGE = """\
CAD5210: an op uses a storage that it neither reads nor writes
  expected: every operand's storage
  got:      storage 4
  at:       tape 1 (stage `step`), op 0"""


def hostile() -> bytes:
    return op(0, reads=(0, 3))


if __name__ == "__main__":
    attack(hostile)
