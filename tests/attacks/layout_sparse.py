"""A literal asks for a sparse tensor, which has no bytes of its own."""

from patching import STEP, attack, golden, op

from cadence_runtime.format.tape import Literal

MESSAGE = """\
CAD5207: a literal of kind layout has the wrong text
  expected: text like `strided`
  got:      `sparse_coo`
  at:       tape 1 (stage `step`), op 5"""

SOFTMAX = golden("cpu").tapes[STEP].ops[5]


def hostile() -> bytes:
    return op(5, args=(*SOFTMAX.args[:2], Literal("layout", "sparse_coo")))


if __name__ == "__main__":
    attack(hostile)
