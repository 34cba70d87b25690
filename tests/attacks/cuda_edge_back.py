"""An edge leads back: the graph is a cycle."""

from patching import attack, graph, step_graph

MESSAGE = """\
CAD5705: an edge does not lead forward: the order of the nodes is not topological
  expected: before < after < 11
  got:      9 to 0
  at:       graph 1"""


def hostile() -> bytes:
    return graph(edges=(*step_graph().edges[:-1], step_graph().edges[-1]._replace(after=0)))


if __name__ == "__main__":
    attack(hostile)
