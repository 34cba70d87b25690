"""A copy that lacks its second address."""

from patching import attack, copied, graph, step_graph

MESSAGE = """\
CAD5704: a fill or copy has other addresses than it needs
  expected: words (0, 8)
  got:      words (0,)
  at:       graph 1, node 8"""

ROWS = step_graph().relocations


def hostile() -> bytes:
    return graph(relocations=ROWS[: copied() + 1] + ROWS[copied() + 2 :])


if __name__ == "__main__":
    attack(hostile)
