"""An op with an operand that its schema does not have."""

from patching import STEP, attack, golden, op

from cadence_runtime.format.tape import Literal

MESSAGE = """\
CAD5603: a tape of stage `step` calls `aten::bmm` with other operands than it takes
  expected: aten::bmm(Tensor self, Tensor mat2) -> Tensor
  got:      3 operands
  at:       01_growing_kv_cat.py:39"""

BMM = golden("cpu").tapes[STEP].ops[3]


def hostile() -> bytes:
    return op(3, args=(*BMM.args, Literal("int", "1")))


if __name__ == "__main__":
    attack(hostile)
