"""An op with a keyword that its schema does not have."""

from patching import attack, op

from cadence_runtime.format.tape import Literal

MESSAGE = """\
CAD5603: a tape of stage `step` calls `aten::bmm` with other operands than it takes
  expected: aten::bmm(Tensor self, Tensor mat2) -> Tensor
  got:      `out_dtypes`
  at:       01_growing_kv_cat.py:39"""


def hostile() -> bytes:
    return op(3, kwargs=(("out_dtypes", Literal("int", "1")),))


if __name__ == "__main__":
    attack(hostile)
