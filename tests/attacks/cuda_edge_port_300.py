"""An edge leaves through a port that takes more than a byte."""

from patching import attack, graph, step_graph

MESSAGE = """\
CAD5202: a number of section `graphs` is out of range
  expected: ports and type of an edge from 0 to 255
  got:      300
  at:       section `graphs`, word 3645"""


def hostile() -> bytes:
    return graph(edges=(step_graph().edges[0]._replace(from_port=300), *step_graph().edges[1:]))


if __name__ == "__main__":
    attack(hostile)
