"""An op of torch that maps a file."""

from patching import attack, op

MESSAGE = """\
CAD6005: the plan holds an op that no CPU player runs, `aten::from_file`
  expected: aten ops on plain tensors and numbers
  got:      an op that reaches beyond its operands
  at:       stage `step`"""


def hostile() -> bytes:
    return op(0, name="aten::from_file")


if __name__ == "__main__":
    attack(hostile)
