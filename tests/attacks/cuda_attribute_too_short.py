"""A launch attribute has fewer bytes than the driver copies."""

from patching import attack, node

MESSAGE = """\
CAD5706: the attributes of a launch make no sense
  expected: 64 bytes each, sorted
  got:      `[4]`
  at:       graph 1, node 0"""


def hostile() -> bytes:
    return node(0, attributes=((4, b"\1"),))


if __name__ == "__main__":
    attack(hostile)
