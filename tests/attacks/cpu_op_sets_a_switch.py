"""An op that changes torch for the whole process."""

from patching import attack, op

MESSAGE = """\
CAD6005: the plan holds an op that no CPU player runs, `aten::set_grad_enabled`
  expected: aten ops on plain tensors and numbers
  got:      an op that reaches beyond its operands
  at:       stage `step`"""


def hostile() -> bytes:
    return op(0, name="aten::set_grad_enabled")


if __name__ == "__main__":
    attack(hostile)
