"""The result of an op is stored in a weight, undeclared."""

from dataclasses import replace

from patching import STEP, attack, golden, op

MESSAGE = """\
CAD5213: an op writes to a weight
  expected: scratch, inputs or leaves
  got:      storage 12
  at:       tape 1 (stage `step`), op 7"""

ADDMM = golden("cpu").tapes[STEP].ops[7]


def hostile() -> bytes:
    return op(7, outs=(replace(ADDMM.args[0], sizes=(1, 16), strides=(16, 1)),))


if __name__ == "__main__":
    attack(hostile)
