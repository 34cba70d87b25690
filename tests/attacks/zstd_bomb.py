"""A section says that it becomes 2^62 bytes long."""

from dataclasses import replace

from patching import attack, extent

MESSAGE = """\
CAD5013: section `tapes` would take too much memory
  expected: at most 256 times the 17832 bytes that are stored
  got:      4611686018427387904 bytes"""


def hostile() -> bytes:
    return extent("tapes", lambda found: replace(found, codec=1, raw_bytes=2**62))


if __name__ == "__main__":
    attack(hostile)
