"""State and inputs share bytes."""

from patching import attack, item

MESSAGE = """\
CAD5401: the sections of the arena overlap or are too large
  expected: from 5632, up to 70368744177664
  got:      4608, 512 bytes
  at:       arena section `io`
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return item("sections", 3, offset=4608)


if __name__ == "__main__":
    attack(hostile)
