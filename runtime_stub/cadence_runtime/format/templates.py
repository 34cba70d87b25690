"""Graphs by template: what graphs of one topology have in common stands once, and a graph is the numbers in which it
differs.

    template    launch 24 bytes, fill, launch 16 bytes; ops; relocations (0, 8) (1, 0) (2, 0); edges
    first       3 64 1 1 128 1 1 0 | params | .. | 512 1024 2048          the numbers of the family's first graph
    places      1, 31                                                     which of them differ in the others
    rows        72  1056                                                  a row for each of the others
                80  1088

A plan with thousands of keys is read and checked without making their graphs: each is made when it is asked for.
"""

import operator
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, starmap
from typing import NamedTuple, overload

from cadence_runtime.format.cuda import Edge, Graph, GraphNode, KernelNode, MemcpyNode, MemsetNode, Relocation
from cadence_runtime.format.rows import Rows, columns
from cadence_runtime.format.words import WORD_BYTES, unpack
from cadence_runtime.frozen import frozen

LAUNCH, FILL, COPY = range(3)
LAUNCH_NUMBERS, FILL_NUMBERS, COPY_NUMBERS = 8, 4, 7
"""How many numbers a node has, beside a launch's attributes and parameters."""
PIECE = 16
"""Numbers that are compared at once."""
ADDRESS_BYTES = {FILL: 8, COPY: 16}
"""What the relocation words of a fill or copy take."""


KERNEL, GRID_X, GRID_Y, GRID_Z, BLOCK_X, BLOCK_Y, BLOCK_Z, SHARED = range(8)
VALUE, WORD, BOX, OFFSET, GENERATOR, STEP = range(8, 14)
"""What a number is. A launch has one each of the first eight, then VALUE for each attribute and WORD for its
parameters; BOX are the numbers of fills and copies, and OFFSET those of relocations."""
LAST_WORD = 16
"""Plus n: a word of which the parameters take the first n bytes, 1 to 7; the others are zero."""


class Shape(NamedTuple):
    """What a node is in every graph of a template: its kind; of a launch the bytes of its parameters, of a fill those
    of an element, else 0; and the attributes (CUlaunchAttributeID) of a launch."""

    kind: int
    size: int
    attributes: tuple[int, ...]

    @property
    def numbers(self) -> bytes:
        """What each number of such a node is."""
        if self.kind != LAUNCH:
            return bytes([BOX]) * (FILL_NUMBERS if self.kind == FILL else COPY_NUMBERS)
        whole, rest = divmod(self.size, WORD_BYTES)
        words = bytes([WORD]) * whole + (bytes([LAST_WORD + rest]) if rest else b"")
        return bytes(range(LAUNCH_NUMBERS)) + bytes([VALUE]) * len(self.attributes) + words

    @property
    def addressed(self) -> int:
        """Within how many bytes its relocations lie."""
        return self.size if self.kind == LAUNCH else ADDRESS_BYTES[self.kind]


@frozen
class Template:
    """What graphs have in common. `places` are (node, word) of the relocations; `draws` says that there is a
    generator."""

    ops: tuple[str, ...]
    shapes: tuple[Shape, ...]
    node_ops: Sequence[int]
    places: Sequence[tuple[int, int]]
    edges: Sequence[Edge]
    draws: bool

    def starts(self) -> list[int]:
        """Return where the numbers of each node begin, and behind them those of the relocations."""
        return list(accumulate(map(len, self._by_node()), initial=0))

    def kinds(self) -> bytes:
        """Return what each number of a graph is."""
        drawn = bytes([GENERATOR, STEP]) if self.draws else b""
        return b"".join((*self._by_node(), bytes([OFFSET]) * len(self.places), drawn))

    def _by_node(self) -> list[bytes]:
        known = {shape: shape.numbers for shape in set(self.shapes)}
        return list(map(known.__getitem__, self.shapes))


@frozen
class Family:
    """The graphs of one template: the numbers of the first, and of each other one a row of those at `places`."""

    template: Template
    first: "array[int]"
    places: "array[int]"
    rows: "array[int]"
    others: int

    @property
    def count(self) -> int:
        """How many graphs these are."""
        return 1 + self.others

    def numbers(self, index: int) -> "array[int]":
        """Return the numbers of a graph of the family."""
        found = self.first[:]
        width = len(self.places)
        if index:
            for place, number in zip(self.places, self.rows[(index - 1) * width : index * width], strict=True):
                found[place] = number
        return found

    def columns(self) -> "Iterator[tuple[int, array[int]]]":
        """Yield each place with the numbers there, but that of the first graph."""
        width = len(self.places)
        for index, place in enumerate(self.places):
            yield place, self.rows[index::width]


class Graphs(Sequence[Graph]):
    """Graphs by template, each made when it is asked for. `order` has the family of each; `values` the bytes of launch
    attributes, by number. Equal to any sequence of equal graphs."""

    __slots__ = ("_ranks", "families", "order", "values")

    def __init__(self, values: tuple[bytes, ...], families: tuple[Family, ...], order: Sequence[int]) -> None:
        self.values, self.families, self.order = values, families, order
        seen = [0] * len(families)
        self._ranks = []
        for family in order:
            self._ranks.append(seen[family])
            seen[family] += 1

    def family(self, index: int) -> Family:
        """Return the family of a graph."""
        return self.families[self.order[index]]

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, index: int) -> Graph: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Graph, ...]: ...
    def __getitem__(self, index: int | slice) -> Graph | tuple[Graph, ...]:
        if isinstance(index, slice):
            return tuple(self[each] for each in range(len(self))[index])
        family = self.family(index)
        return make_graph(family.template, family.numbers(self._ranks[index]), self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(operator.eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def node_counts(graphs: Sequence[Graph]) -> list[int]:
    """Return how many nodes each graph has, without making it."""
    if isinstance(graphs, Graphs):
        counts = [len(family.template.shapes) for family in graphs.families]
        return [counts[family] for family in graphs.order]
    return [len(graph.nodes) for graph in graphs]


def relocation_counts(graphs: Sequence[Graph]) -> list[int]:
    """Return how many relocations each graph has, without making it."""
    if isinstance(graphs, Graphs):
        counts = [len(family.template.places) for family in graphs.families]
        return [counts[family] for family in graphs.order]
    return [len(graph.relocations) for graph in graphs]


def op_names(graphs: Sequence[Graph]) -> set[str]:
    """Return what all graphs call the ops of their nodes."""
    if isinstance(graphs, Graphs):
        return {op for family in graphs.families for op in family.template.ops}
    return {op for graph in graphs for op in graph.ops}


def make_graph(template: Template, numbers: "array[int]", values: Sequence[bytes]) -> Graph:
    """Return the graph of a template with these numbers."""
    starts = template.starts()
    nodes = tuple(make_node(shape, numbers, at, values) for shape, at in zip(template.shapes, starts, strict=False))
    end = starts[len(nodes)]
    offsets = numbers[end : end + len(template.places)]
    relocations = Rows.of_columns(Relocation, (*columns(template.places, 2), offsets))
    philox = (numbers[-2], numbers[-1]) if template.draws else None
    return Graph(nodes, relocations, template.edges, template.ops, template.node_ops, philox)


def make_node(shape: Shape, numbers: "array[int]", at: int, values: Sequence[bytes]) -> GraphNode:
    """Return the node of a shape whose numbers begin at `at`."""
    kind, size, attributes = shape
    if kind == LAUNCH:
        kernel, gx, gy, gz, bx, by, bz, shared = numbers[at : at + LAUNCH_NUMBERS]
        at += LAUNCH_NUMBERS
        params = at + len(attributes)
        valued = tuple([(name, values[number]) for name, number in zip(attributes, numbers[at:params], strict=True)])
        raw = _bytes(numbers[params : params - (-size // WORD_BYTES)])[:size]
        return KernelNode(kernel, (gx, gy, gz), (bx, by, bz), shared, raw, valued)
    if kind == FILL:
        pitch, value, width, height = numbers[at : at + FILL_NUMBERS]
        return MemsetNode(pitch, value, size, width, height)
    return MemcpyNode._make(numbers[at : at + COPY_NUMBERS])


def _bytes(words: "array[int]") -> bytes:
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


class GraphsBuilder:
    """Takes graphs one by one, and keeps the numbers of each."""

    def __init__(self) -> None:
        self._values: dict[bytes, int] = {}
        self._numbers: dict[Template, list[array[int]]] = {}
        self._families: dict[Template, int] = {}
        self._order: list[int] = []

    def __len__(self) -> int:
        return len(self._order)

    def add(self, graph: Graph) -> None:
        """Add the next graph."""
        template = template_of(graph)
        self._order.append(self._families.setdefault(template, len(self._families)))
        self._numbers.setdefault(template, []).append(self._numbers_of(graph))

    def finish(self) -> Graphs:
        """Return the graphs. The builder is of no use afterwards."""
        raw, known = list(self._values), dict[int, int]()
        for template, numbers in self._numbers.items():
            places = [place for place, kind in enumerate(template.kinds()) if kind == VALUE]
            for graph in numbers:
                for place in places:
                    graph[place] = known.setdefault(graph[place], len(known))
        families = tuple(starmap(_family, self._numbers.items()))
        return Graphs(tuple(raw[number] for number in known), families, tuple(self._order))

    def _numbers_of(self, graph: Graph) -> "array[int]":
        found = array("q")
        for node in graph.nodes:
            match node:
                case KernelNode():
                    found.extend((node.kernel, *node.grid, *node.block, node.shared_bytes))
                    found.extend(self._values.setdefault(raw, len(self._values)) for _, raw in node.attributes)
                    found.extend(unpack(node.params + bytes(-len(node.params) % WORD_BYTES)))
                case MemsetNode():
                    found.extend((node.pitch, node.value, node.width, node.height))
                case MemcpyNode():
                    found.extend(node)
        found.extend(columns(graph.relocations, 3)[2])
        found.extend(graph.philox or ())
        return found


def by_template(graphs: Iterable[Graph]) -> Graphs:
    """Return graphs by template."""
    builder = GraphsBuilder()
    for graph in graphs:
        builder.add(graph)
    return builder.finish()


def template_of(graph: Graph) -> Template:
    """Return what a graph has in common with others."""
    nodes, words, _ = columns(graph.relocations, 3)
    return Template(
        graph.ops,
        tuple(map(_shape, graph.nodes)),
        tuple(graph.node_ops),
        tuple(zip(nodes, words, strict=True)),
        tuple(graph.edges),
        graph.philox is not None,
    )


def _shape(node: GraphNode) -> Shape:
    match node:
        case KernelNode():
            return Shape(LAUNCH, len(node.params), tuple(name for name, _ in node.attributes))
        case MemsetNode():
            return Shape(FILL, node.element_bytes, ())
        case MemcpyNode():
            return Shape(COPY, 0, ())


def _family(template: Template, graphs: "list[array[int]]") -> Family:
    first, *others = graphs
    places = array("q", sorted(set(chain.from_iterable(_differing(first, other) for other in others))))
    rows = array("q", chain.from_iterable(map(other.__getitem__, places) for other in others))
    return Family(template, first, places, rows, len(others))


def _differing(first: "array[int]", other: "array[int]") -> Iterator[int]:
    """Yield where two graphs differ; what is equal is passed over in pieces."""
    one, two = first.tobytes(), other.tobytes()
    for start in range(0, len(first), PIECE):
        piece = slice(start * WORD_BYTES, (start + PIECE) * WORD_BYTES)
        if one[piece] != two[piece]:
            yield from (at for at in range(start, min(start + PIECE, len(first))) if first[at] != other[at])
