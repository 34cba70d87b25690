"""The header says that there are eight sections."""

from patching import attack, header

MESSAGE = """\
CAD5006: the header of the plan makes no sense
  expected: 7 sections, then zero
  got:      8 sections, 32704 bytes, then 0"""


def hostile() -> bytes:
    return header(lambda data: data.__setitem__(12, 8))


if __name__ == "__main__":
    attack(hostile)
