"""A section of the arena ends behind 2^46."""

from patching import attack, item

MESSAGE = """\
CAD5401: the sections of the arena overlap or are too large
  expected: from 6144, up to 70368744177664
  got:      6144, 4611686018427387904 bytes
  at:       arena section `scratch`
  hint:     compile the plan again; if it was not changed on the way, this is a fault of the compiler"""


def hostile() -> bytes:
    return item("sections", 4, size_bytes=2**62)


if __name__ == "__main__":
    attack(hostile)
