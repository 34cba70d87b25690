"""Two values of attributes are equal."""

from patching import attack, cuda, templates

from cadence_runtime.format.templates import Graphs

MESSAGE = """\
CAD5204: section `graphs` is not in its one form
  expected: strings, sets, values and templates once each, in the order of their first use
  got:      another order, or something twice"""


def hostile() -> bytes:
    graphs = templates()
    return cuda(graphs=Graphs(graphs.values * 2, graphs.families, graphs.order))


if __name__ == "__main__":
    attack(hostile)
