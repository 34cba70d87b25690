"""A source line that colours the terminal."""

from patching import attack, op

MESSAGE = """\
CAD5215: a source line is not printable
  expected: printable text
  got:      `model.py:?[31m7`
  at:       tape 1 (stage `step`), op 0"""


def hostile() -> bytes:
    return op(0, source="model.py:\x1b[31m7")


if __name__ == "__main__":
    attack(hostile)
