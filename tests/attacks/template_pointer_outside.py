"""One graph of a template points behind the arena."""

from patching import attack, number

from cadence_runtime.format.templates import OFFSET

LAST = -1
MESSAGE = """\
CAD5702: a pointer lies outside of the arena
  expected: within 7936 bytes
  got:      bytes 1099511627776 to 1099511627776
  at:       graph 5, node 2"""


def hostile() -> bytes:
    return number(LAST, OFFSET, 1 << 40, other=True)


if __name__ == "__main__":
    attack(hostile)
