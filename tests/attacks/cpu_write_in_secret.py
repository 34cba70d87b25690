"""An op writes to an input, and says that it only reads it."""

from dataclasses import replace

from patching import STEP, attack, golden, op

MESSAGE = """\
CAD5603: a tape of stage `step` calls `aten::add_.Tensor` with other operands than it takes
  expected: aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
  got:      `self`, which it writes to and does not declare
  at:       01_growing_kv_cat.py:36"""

INPUT = replace(golden("cpu").tapes[STEP].ops[0].args[1], sizes=(16,), strides=(1,))


def hostile() -> bytes:
    return op(0, name="aten::add_.Tensor", args=(INPUT, INPUT), reads=(0,), writes=(5,))


if __name__ == "__main__":
    attack(hostile)
