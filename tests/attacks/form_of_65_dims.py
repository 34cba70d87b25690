"""A tensor with more dims than torch takes."""

from dataclasses import replace

from patching import attack, golden, plan

MESSAGE = """\
CAD5108: a value of the manifest is not allowed
  expected: a list of at most 64
  got:      `a list of 65`
  at:       manifest.forms[14].sizes"""


def hostile() -> bytes:
    return plan(forms=(*golden("cpu").forms, replace(golden("cpu").forms[0], sizes=(1,) * 65, strides=(1,) * 65)))


if __name__ == "__main__":
    attack(hostile)
