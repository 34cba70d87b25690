"""Two leaves share bytes."""

from patching import attack, item

MESSAGE = """\
CAD5404: two things share bytes of the arena
  expected: bytes from 384, behind `k`
  got:      bytes from 256
  at:       arena section `state`, `v`
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return item("leaves", 1, slot_offset=256)


if __name__ == "__main__":
    attack(hostile)
