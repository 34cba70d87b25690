"""A capture takes a larger input than its tape."""

from dataclasses import replace

from patching import STEP, attack, golden, key

MESSAGE = """\
CAD5506: input `x` of a tape is not what its capture says
  expected: `float32[1, 2, 16] strides [16, 16, 1] offset 0`
  got:      `float32[1, 1, 16] strides [16, 16, 1] offset 0`
  at:       capture 1"""

INPUT = golden("cpu").captures[STEP].key.inputs[0]


def hostile() -> bytes:
    return key(inputs=(replace(INPUT, sizes=(1, 2, 16)),))


if __name__ == "__main__":
    attack(hostile)
