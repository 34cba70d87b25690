"""Strides with which a form is longer than its slot."""

from dataclasses import replace

from patching import attack, golden, plan

MESSAGE = """\
CAD5405: form 14 is larger than its slot
  expected: at most 384 bytes
  got:      36893488147419103264 bytes
  at:       leaf `k`
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""

FORM = replace(golden("cpu").forms[2], sizes=(2, 2, 1, 8), strides=(2**62, 2**62, 8, 1))


def hostile() -> bytes:
    return plan(forms=(*golden("cpu").forms, FORM))


if __name__ == "__main__":
    attack(hostile)
