"""A template has a million graphs that nothing tells apart."""

from dataclasses import replace

from patching import attack, family

LONE = 1
MESSAGE = """\
CAD5202: a number of section `graphs` is out of range
  expected: graphs from 0 to 1287
  got:      1000000
  at:       section `graphs`, word 1587"""


def hostile() -> bytes:
    return family(LONE, lambda found: replace(found, others=1_000_000))


if __name__ == "__main__":
    attack(hostile)
