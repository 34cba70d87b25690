"""A graph differs from the first of its template in a number that it does not have."""

from array import array
from dataclasses import replace

from patching import attack, family

from cadence_runtime.format.templates import Family

LAST = -1
MESSAGE = """\
CAD5202: a number of section `graphs` is out of range
  expected: a place from 0 to 912
  got:      913
  at:       section `graphs`, word 2859"""


def hostile() -> bytes:
    def behind(found: Family) -> Family:
        return replace(found, places=found.places[:-1] + array("q", [len(found.first)]))

    return family(LAST, behind)


if __name__ == "__main__":
    attack(hostile)
