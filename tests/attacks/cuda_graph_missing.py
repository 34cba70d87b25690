"""A capture has no graph."""

from patching import attack, cuda, golden

MESSAGE = """\
CAD5701: captures and graphs differ
  expected: 14 graphs
  got:      13"""


def hostile() -> bytes:
    return cuda(graphs=golden("cuda").cuda.graphs[1:])


if __name__ == "__main__":
    attack(hostile)
