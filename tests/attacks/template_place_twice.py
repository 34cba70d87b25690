"""A place of a template stands twice, and another not at all."""

from dataclasses import replace

from patching import attack, family

LAST = -1
MESSAGE = """\
CAD5204: section `graphs` is not in its one form
  expected: places in ascending order
  got:      another order"""


def hostile() -> bytes:
    return family(LAST, lambda found: replace(found, places=found.places[:1] + found.places[:-1]))


if __name__ == "__main__":
    attack(hostile)
