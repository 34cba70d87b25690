"""A template says that its graphs differ where they are equal."""

from array import array
from dataclasses import replace

from patching import attack, family

from cadence_runtime.format.templates import Family

LAST = -1
MESSAGE = """\
CAD5204: section `graphs` is not in its one form
  expected: places at which some graph differs from the first
  got:      place 168"""


def hostile() -> bytes:
    def equal(found: Family) -> Family:
        rows = found.rows[:]
        rows[:: len(found.places)] = array("q", [found.first[found.places[0]]]) * found.others
        return replace(found, rows=rows)

    return family(LAST, equal)


if __name__ == "__main__":
    attack(hostile)
