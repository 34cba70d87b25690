"""The blob table ends in the middle of a row."""

from patching import attack, section

MESSAGE = """\
CAD5014: the blob table has the wrong length
  expected: 96 bytes a row
  got:      472 bytes"""


def hostile() -> bytes:
    return section("blob-table", lambda table: table[:-8])


if __name__ == "__main__":
    attack(hostile)
