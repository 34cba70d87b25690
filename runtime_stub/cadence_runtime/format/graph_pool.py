"""Graphs of forms 1 and 2: whole nodes stand once in a pool, and a graph lists their numbers.

    nodes       count, then each: kind; a launch: kernel, grid (3), block (3), shared bytes, params (string), number of
                attributes and (attribute, raw string) of each; a fill: its five numbers; a copy: its seven
    graphs      count, then each: philox (offset + 1, step; or 0, 0), number of ops and each (string), number of nodes
                and (node, op) of each, number of relocations and (node, word, offset) of each, number of edges and
                (before, after, from port, to port, type) of each

Compilers write form 3 today.
"""

from collections.abc import Sequence

from cadence_runtime.errors import PlanError
from cadence_runtime.format.cuda import Graph, GraphNode, KernelNode, MemcpyNode, MemsetNode, Relocation
from cadence_runtime.format.graph_words import (
    MAX,
    MAX_ATTRIBUTE,
    FirstUse,
    PartReader,
    Strings,
    counted,
)

LAUNCH, FILL, COPY = range(3)
LAUNCH_NAMES = ("a kernel", *["a launch"] * 7, "a string")


def pool_words(graphs: Sequence[Graph], strings: Strings) -> list[int]:
    """Return the pool and the graphs."""
    pool = _Pool(strings)
    rows = [word for graph in graphs for word in _graph(graph, strings, pool)]
    return [*pool.words(), len(graphs), *rows]


class _Pool:
    """Nodes by number, in the order in which they are first asked for."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._numbers: dict[GraphNode, int] = {}
        self._known: dict[int, int] = {}
        self._rows: list[list[int]] = []

    def __call__(self, node: GraphNode) -> int:
        """Return a node's number. The node has to stay alive: one that graphs share is compared once."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._numbers.setdefault(node, len(self._numbers))
            if known == len(self._rows):
                self._rows.append(_node(node, self._strings))
        return known

    def words(self) -> list[int]:
        return [len(self._rows), *(word for row in self._rows for word in row)]


def _node(node: GraphNode, strings: Strings) -> list[int]:
    match node:
        case KernelNode():
            attributes = counted((name, strings(raw)) for name, raw in node.attributes)
            return [LAUNCH, node.kernel, *node.grid, *node.block, node.shared_bytes, strings(node.params), *attributes]
        case MemsetNode():
            return [FILL, node.pitch, node.value, node.element_bytes, node.width, node.height]
        case MemcpyNode():
            box = (node.width, node.height, node.depth)
            return [COPY, *box, *_pitches(node)]


def _pitches(node: MemcpyNode) -> tuple[int, int, int, int]:
    return node.destination_pitch, node.destination_height, node.source_pitch, node.source_height


def _graph(graph: Graph, strings: Strings, pool: _Pool) -> list[int]:
    philox = (0, 0) if graph.philox is None else (graph.philox[0] + 1, graph.philox[1])
    numbers = [(pool(node), op) for node, op in zip(graph.nodes, graph.node_ops, strict=True)]
    return [
        *philox,
        *counted([strings(op)] for op in graph.ops),
        *counted(numbers),
        *counted(graph.relocations),
        *counted(graph.edges),
    ]


class PoolReader:
    """Reads the pool and the graphs, what is long of them in bulk."""

    def __init__(self, around: PartReader) -> None:
        self._around, self.words, self.strings = around, around.words, around.strings
        self._node_strings: list[tuple[int, ...]] = []  # of each node of the pool, in which order they were numbered
        self._attributes: dict[bytes, tuple[tuple[tuple[int, bytes], ...], tuple[int, ...]]] = {}
        self._raw_nodes: set[bytes] = set()
        self._string_order, self._node_order = FirstUse(), FirstUse()
        self._string_order(around.asked)
        launch = (len(around.kernels), *[MAX + 1] * 7, len(self.strings))
        self.pool = [self._pooled(launch) for _ in range(self.words.count("nodes", 6))]
        self.graphs = tuple(self._graph() for _ in range(self.words.count("graphs", 6)))

    def require_one_form(self) -> None:
        """Raise PlanError CAD5204 unless everything stands where writing the part again would put it."""
        complete = (self._string_order.used, self._node_order.used) == (len(self.strings), len(self.pool))
        in_order = self._string_order.in_order and self._node_order.in_order
        once = len(set(self.strings)) == len(self.strings) and len(self._raw_nodes) == len(self.pool)
        if not (complete and in_order and once):
            raise PlanError(
                "CAD5204",
                "section `graphs` is not in its one form",
                expected="strings and nodes once each, in the order of their first use",
                got="another order, or something twice",
            )

    def _pooled(self, launch: Sequence[int]) -> GraphNode:
        """Read a node of the pool and keep its bytes: a plan can make the hashes of numbers equal, and not of bytes."""
        start = self.words.position
        node = self._node(launch)
        self._raw_nodes.add(self.words.since(start))
        return node

    def _node(self, launch: Sequence[int]) -> GraphNode:
        """Read a node of the pool; `launch` are the upper ends of what a launch begins with."""
        kind = self.words.take(0, 3, "a kind of node")
        if kind == LAUNCH:
            kernel, gx, gy, gz, bx, by, bz, shared, params = self.words.row(launch, LAUNCH_NAMES)
            attributes, asked = self._launch_attributes()
            self._node_strings.append((*asked, params))
            return KernelNode(kernel, (gx, gy, gz), (bx, by, bz), shared, self.strings[params], attributes)
        self._node_strings.append(())
        if kind == FILL:
            return MemsetNode._make(self.words.many(5, "a fill"))
        return MemcpyNode._make(self.words.many(7, "a copy"))

    def _launch_attributes(self) -> tuple[tuple[tuple[int, bytes], ...], tuple[int, ...]]:
        """Return the attributes of a launch, and the numbers of their strings. Most launches have the same few."""
        start = self.words.position
        row = self.words.many(2 * self.words.count("attributes", 2), "attributes")
        raw = self.words.since(start)
        if raw not in self._attributes:
            pairs = tuple(zip(row[::2], row[1::2], strict=True))
            for name, number in pairs:
                if name >= MAX_ATTRIBUTE:
                    raise self.words.out_of_range("an attribute", 0, MAX_ATTRIBUTE, name)
                if number >= len(self.strings):
                    raise self.words.out_of_range("a string", 0, len(self.strings), number)
            self._attributes[raw] = tuple((name, self.strings[number]) for name, number in pairs), row[1::2]
        return self._attributes[raw]

    def _graph(self) -> Graph:
        offset, step = self.words.many(2, "philox")
        if step and not offset:
            raise self.words.out_of_range("no step of a generator that is not read", 0, 1, step)
        named, ops = self._around.ops()
        nodes, node_ops = self._nodes_of(max(len(ops), 1))
        self._string_order(named)
        relocations = self._around.rows("relocations", Relocation, 3)
        edges = self._around.edges()
        return Graph(nodes, relocations, edges, ops, node_ops, (offset - 1, step) if offset else None)

    def _nodes_of(self, ops: int) -> tuple[tuple[GraphNode, ...], tuple[int, ...]]:
        """Read the nodes of a graph with so many ops, which are nodes of the pool, and the op of each."""
        numbers, node_ops = self._around.rows("nodes", lambda *row: row, 2).columns()
        if max(numbers, default=-1) >= len(self.pool) or max(node_ops, default=-1) >= ops:
            rows = zip(numbers, node_ops, strict=True)
            wrong = next(max(row) for row in rows if row[0] >= len(self.pool) or row[1] >= ops)
            raise self.words.out_of_range("a node or an op", 0, max(len(self.pool), ops), wrong)
        for number in self._node_order(numbers):
            self._string_order(self._node_strings[number])
        return tuple(map(self.pool.__getitem__, numbers)), tuple(node_ops)
