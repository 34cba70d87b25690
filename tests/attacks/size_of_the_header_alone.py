"""The header says that the file is no longer than itself; so is the file."""

from patching import attack, header

MESSAGE = """\
CAD5006: the header of the plan makes no sense
  expected: 7 sections, then zero
  got:      7 sections, 64 bytes, then 0"""


def hostile() -> bytes:
    return header(lambda data: data.__setitem__(slice(16, 24), (64).to_bytes(8, "little")))[:64]


if __name__ == "__main__":
    attack(hostile)
