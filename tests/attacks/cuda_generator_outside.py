"""A replay writes the generator's words behind the arena."""

from patching import attack, graph

MESSAGE = """\
CAD5702: the state of the generator lies outside of the arena
  expected: within 7936 bytes
  got:      bytes 7928 to 7944
  at:       graph 1"""


def hostile() -> bytes:
    return graph(philox=(7928, 4))


if __name__ == "__main__":
    attack(hostile)
