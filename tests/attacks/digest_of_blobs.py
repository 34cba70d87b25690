"""Section `blobs` has a digest, though each blob has its own."""

from dataclasses import replace

from patching import attack, extent

MESSAGE = """\
CAD5009: an extent of the plan makes no sense
  expected: section `blobs` raw, without a digest, since each blob has its own
  got:      another
  at:       section table"""


def hostile() -> bytes:
    return extent("blobs", lambda found: replace(found, sha256=b"\1" * 32))


if __name__ == "__main__":
    attack(hostile)
