"""A slot begins on no multiple of 256."""

from patching import attack, item

MESSAGE = """\
CAD5402: a part of the arena is not aligned
  expected: a multiple of 256
  got:      offset 520
  at:       arena section `state`, `v`
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return item("leaves", 1, slot_offset=520)


if __name__ == "__main__":
    attack(hostile)
