"""The list of graphs names the second template first."""

from patching import attack, cuda, templates

from cadence_runtime.format.templates import Graphs

MESSAGE = """\
CAD5204: section `graphs` is not in its one form
  expected: strings, sets, values and templates once each, in the order of their first use
  got:      another order, or something twice"""


def hostile() -> bytes:
    graphs = templates()
    return cuda(graphs=Graphs(graphs.values, graphs.families, sorted(graphs.order, reverse=True)))


if __name__ == "__main__":
    attack(hostile)
