"""A string that nothing uses: a place to hide bytes in."""

from patching import attack, section

from cadence_runtime.format.words import pack

MESSAGE = """\
CAD5204: section `tapes` is not in canonical form
  expected: all used
  got:      string 0 is never used
  at:       section `tapes`, before word 8"""


def hostile() -> bytes:
    return section("tapes", lambda _: pack([1, 1, ord("a"), 0, 0, 0, 0, 0]))


if __name__ == "__main__":
    attack(hostile)
