"""An op with a string for a tensor."""

from patching import STEP, attack, golden, op

from cadence_runtime.format.tape import Literal

MESSAGE = """\
CAD5603: a tape of stage `step` calls `aten::bmm` with other operands than it takes
  expected: aten::bmm(Tensor self, Tensor mat2) -> Tensor
  got:      another kind of `mat2`
  at:       01_growing_kv_cat.py:39"""

BMM = golden("cpu").tapes[STEP].ops[3]


def hostile() -> bytes:
    return op(3, args=(BMM.args[0], Literal("str", "x")))


if __name__ == "__main__":
    attack(hostile)
