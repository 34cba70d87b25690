"""Sizes whose product overflows, beside a zero that hides it."""

from dataclasses import replace

from patching import STEP, attack, golden, op

MESSAGE = """\
CAD5209: a view has no shape
  expected: as many strides as sizes, at most 64, nothing negative, fewer than 2^63 elements
  got:      `sizes [0, 4611686018427387904, 4611686018427387904, 1], s...`
  at:       tape 1 (stage `step`), op 1"""

CAT = golden("cpu").tapes[STEP].ops[1]


def hostile() -> bytes:
    return op(1, args=((replace(CAT.args[0][0], sizes=(0, 2**62, 2**62, 1)), CAT.args[0][1]), CAT.args[1]))


if __name__ == "__main__":
    attack(hostile)
