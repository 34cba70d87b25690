"""A copy in text mode turned CR LF into LF."""

from patching import attack, unchanged

MESSAGE = """\
CAD5002: the plan was copied as text, which changed its bytes
  expected: 89 43 44 43 0d 0a 1a 0a
  got:      89 43 44 43 0a 1a 0a 01
  hint:     copy it in binary mode"""


def hostile() -> bytes:
    return unchanged().replace(b"\r\n", b"\n")


if __name__ == "__main__":
    attack(hostile)
