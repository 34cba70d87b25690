"""A launch attribute holds the address of an event, which the driver would follow."""

from patching import attack, node

MESSAGE = """\
CAD5706: a launch has an attribute that no plan can fill
  expected: some of [2, 3, 4, 5, 6, 8, 9, 10, 11, 14], or zeros
  got:      7
  at:       graph 1, node 0"""


def hostile() -> bytes:
    return node(0, attributes=((7, b"\x41" * 64),))


if __name__ == "__main__":
    attack(hostile)
