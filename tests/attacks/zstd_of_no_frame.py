"""A section says that it is a zstd frame, and is none."""

from dataclasses import replace

from patching import attack, extent

MESSAGE = """\
CAD5012: section `tapes` cannot be decompressed
  expected: a zstd frame of 17832 bytes
  got:      ZstdError: cannot get frame parameters: Unknown frame descriptor"""


def hostile() -> bytes:
    return extent("tapes", lambda found: replace(found, codec=1))


if __name__ == "__main__":
    attack(hostile)
