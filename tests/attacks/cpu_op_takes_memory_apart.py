"""An op that makes a sparse tensor of unchecked indices."""

from patching import attack, op

MESSAGE = """\
CAD6005: the plan holds an op that no CPU player runs, `aten::_sparse_csr_tensor_unsafe`
  expected: aten ops on plain tensors and numbers
  got:      an op that reaches beyond its operands
  at:       stage `step`"""


def hostile() -> bytes:
    return op(0, name="aten::_sparse_csr_tensor_unsafe")


if __name__ == "__main__":
    attack(hostile)
