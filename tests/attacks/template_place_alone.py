"""A template says where its graphs differ, and has one."""

from array import array
from dataclasses import replace

from patching import attack, family

LONE = 1
MESSAGE = """\
CAD5204: section `graphs` is not in its one form
  expected: no places without other graphs
  got:      1"""


def hostile() -> bytes:
    return family(LONE, lambda found: replace(found, places=array("q", [0])))


if __name__ == "__main__":
    attack(hostile)
