"""The first blob says that it becomes longer than any length of Python."""

from dataclasses import replace

from patching import attack, blob_row

MESSAGE = """\
CAD5013: blob 0 would take too much memory
  expected: at most 256 times the 64 bytes that are stored
  got:      9223372036854775808 bytes"""


def hostile() -> bytes:
    return blob_row(lambda found: replace(found, codec=1, raw_bytes=2**63))


if __name__ == "__main__":
    attack(hostile)
