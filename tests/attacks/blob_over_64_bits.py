"""The first blob stands where offsets overflow."""

from dataclasses import replace

from patching import attack, blob_row

MESSAGE = """\
CAD5008: a section of the plan is not where it belongs
  expected: bytes from 0 to at most 4352
  got:      bytes from 18446744073709551552 to 18446744073709551616
  at:       blob 0"""


def hostile() -> bytes:
    return blob_row(lambda found: replace(found, offset=2**64 - 64))


if __name__ == "__main__":
    attack(hostile)
