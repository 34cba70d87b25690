"""A template has a graph more than the list of graphs names."""

from dataclasses import replace

from patching import attack, family

from cadence_runtime.format.templates import Family

LAST = -1
MESSAGE = """\
CAD5204: section `graphs` is not in its one form
  expected: 6 graphs of template 2
  got:      5 in the list"""


def hostile() -> bytes:
    def longer(found: Family) -> Family:
        return replace(found, rows=found.rows + found.rows[-len(found.places) :], others=found.others + 1)

    return family(LAST, longer)


if __name__ == "__main__":
    attack(hostile)
