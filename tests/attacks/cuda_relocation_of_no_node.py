"""A relocation of a node that is not there."""

from patching import attack, graph, step_graph

from cadence_runtime.format.cuda import Relocation

MESSAGE = """\
CAD5704: a relocation has no node
  expected: 0 to 10
  got:      11
  at:       graph 1"""


def hostile() -> bytes:
    return graph(relocations=(*step_graph().relocations, Relocation(11, 0, 0)))


if __name__ == "__main__":
    attack(hostile)
