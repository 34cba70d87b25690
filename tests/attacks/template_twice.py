"""Two templates are equal."""

from patching import attack, cuda, templates

from cadence_runtime.format.templates import Graphs

LONE = 1
MESSAGE = """\
CAD5204: section `graphs` is not in its one form
  expected: strings, sets, values and templates once each, in the order of their first use
  got:      another order, or something twice"""


def hostile() -> bytes:
    graphs = templates()
    families = (*graphs.families, graphs.families[LONE])
    return cuda(graphs=Graphs(graphs.values, families, [*graphs.order, len(graphs.families)]))


if __name__ == "__main__":
    attack(hostile)
