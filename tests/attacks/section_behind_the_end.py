"""A section is as long as 64 bits can say."""

from dataclasses import replace

from patching import attack, extent

MESSAGE = """\
CAD5008: a section of the plan is not where it belongs
  expected: bytes from 9024 to at most 32704
  got:      bytes from 9024 to 18446744073709560639
  at:       section table, entry 1"""


def hostile() -> bytes:
    return extent("nodes", lambda found: replace(found, size_bytes=2**64 - 1, raw_bytes=2**64 - 1))


if __name__ == "__main__":
    attack(hostile)
