"""A fill of elements that no device has."""

from patching import attack, fill

MESSAGE = """\
CAD5706: a fill has elements that no device takes
  expected: 1, 2 or 4 bytes
  got:      the value 0 in 3 bytes
  at:       graph 1, node 11"""


def hostile() -> bytes:
    return fill(element_bytes=3)


if __name__ == "__main__":
    attack(hostile)
