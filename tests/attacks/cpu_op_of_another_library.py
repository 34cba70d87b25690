"""An op of a library that is not torch."""

from patching import attack, op

MESSAGE = """\
CAD6005: the plan holds an op that no CPU player runs, `evil::addmm`
  expected: aten ops on plain tensors and numbers
  got:      an op of another library, `evil`
  at:       stage `step`"""


def hostile() -> bytes:
    return op(0, name="evil::addmm")


if __name__ == "__main__":
    attack(hostile)
