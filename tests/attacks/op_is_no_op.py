"""An op whose name leads out of torch."""

from patching import attack, op

MESSAGE = """\
CAD5206: an op has no name of an op
  expected: `namespace::name.overload`
  got:      `os.system`
  at:       tape 1 (stage `step`), op 0"""


def hostile() -> bytes:
    return op(0, name="os.system")


if __name__ == "__main__":
    attack(hostile)
