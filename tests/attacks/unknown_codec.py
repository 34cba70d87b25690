"""A section is stored in codec 9."""

from dataclasses import replace

from patching import attack, extent

MESSAGE = """\
CAD5009: an extent of the plan makes no sense
  expected: codec 0 (raw, both sizes equal) or 1 (zstd), then zero
  got:      codec 9, 17832 bytes for 17832, then 0
  at:       section table, entry 3"""


def hostile() -> bytes:
    return extent("tapes", lambda found: replace(found, codec=9))


if __name__ == "__main__":
    attack(hostile)
