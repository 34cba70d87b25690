"""A section begins where the one before it does."""

from dataclasses import replace

from patching import attack, extent

MESSAGE = """\
CAD5008: a section of the plan is not where it belongs
  expected: bytes from 9024 to at most 32704
  got:      bytes from 640 to 928
  at:       section table, entry 1"""


def hostile() -> bytes:
    return extent("nodes", lambda found: replace(found, offset=640))


if __name__ == "__main__":
    attack(hostile)
