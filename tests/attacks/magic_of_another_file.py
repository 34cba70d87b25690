"""The file begins like a zip archive."""

from patching import attack, unchanged

MESSAGE = """\
CAD5001: not a plan
  expected: 89 43 44 43 0d 0a 1a 0a
  got:      50 4b 03 04 0d 0a 1a 0a
  at:       byte 0"""


def hostile() -> bytes:
    return b"PK\x03\x04" + unchanged()[4:]


if __name__ == "__main__":
    attack(hostile)
