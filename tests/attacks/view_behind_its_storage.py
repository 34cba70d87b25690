"""A view reaches one element further than its storage."""

from dataclasses import replace

from patching import STEP, attack, golden, op

MESSAGE = """\
CAD5209: a view reaches behind its storage
  expected: at most the 192 bytes of storage 3
  got:      196 bytes
  at:       tape 1 (stage `step`), op 0"""

ADDMM = golden("cpu").tapes[STEP].ops[0]


def hostile() -> bytes:
    return op(0, args=(replace(ADDMM.args[0], offset=1), *ADDMM.args[1:]))


if __name__ == "__main__":
    attack(hostile)
