"""An op that torch does not have."""

from patching import attack, op

MESSAGE = """\
CAD6005: the plan holds an op that no CPU player runs, `aten::addmmm`
  expected: aten ops on plain tensors and numbers
  got:      no op of this torch
  at:       stage `step`"""


def hostile() -> bytes:
    return op(0, name="aten::addmmm")


if __name__ == "__main__":
    attack(hostile)
