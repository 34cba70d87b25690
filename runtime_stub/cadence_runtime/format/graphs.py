"""The CUDA part as words: images, kernels and whole nodes stand once, and a graph lists numbers of nodes.

    head        1, or 2 with launches, or 0 and nothing else for a plan without a CUDA part; base, compute capability
                (2), driver
    strings     count, then each: length in bytes, bytes padded with zeros to whole words
    images      count, then each: digest, library (strings), blob
    globals     count, then each: image, name, data (strings), number of pointers and (place, arena offset) of each
    kernels     count, then each: image, name, number of params and (offset, size) of each, number of attributes and
                (attribute, value) of each
    snapshots   count, then each: name, arena offset, size, blob + 1 or 0
    nodes       count, then each: kind; a launch: kernel, grid (3), block (3), shared bytes, params (string), number of
                attributes and (attribute, raw string) of each; a fill: its five numbers; a copy: its seven
    graphs      count, then each: philox (offset + 1, step; or 0, 0), number of ops and each (string), number of nodes
                and (node, op) of each, number of relocations and (node, word, offset) of each, number of edges and
                (before, after, from port, to port, type) of each
    launches    only behind a 2; count, then each: graph, number of moves before it and (destination, source, size) of
                each, number of moves after it and the same of each

A second key of the same topology costs its differences: launches with equal parameters are one node of the pool.
"""

from collections.abc import Callable, Iterable, Sequence

from cadence_runtime.errors import PlanError
from cadence_runtime.format.cuda import (
    CudaPart,
    DeviceGlobal,
    Edge,
    Graph,
    GraphNode,
    Kernel,
    KernelImage,
    KernelNode,
    Launch,
    MemcpyNode,
    MemsetNode,
    Move,
    Relocation,
    Snapshot,
)
from cadence_runtime.format.rows import Row_co, Rows
from cadence_runtime.format.words import WORD_BYTES, Words, pack, unpack

SECTION = "graphs"
NO_PART, PLAIN, WITH_LAUNCHES = range(3)
LAUNCH, FILL, COPY = range(3)
MAX_STRING_BYTES = 1 << 20
MAX = 2**63 - 1
MAX_EDGE_BYTE = 255
MAX_ATTRIBUTE = 256
LAUNCH_NAMES = ("a kernel", *["a launch"] * 7, "a string")


class _Strings:
    """Byte strings by number, in the order in which they are first asked for."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def __call__(self, data: bytes | str) -> int:
        raw = data.encode() if isinstance(data, str) else data
        return self.numbers.setdefault(raw, len(self.numbers))

    def words(self) -> list[int]:
        found = [len(self.numbers)]
        for data in self.numbers:
            padded = data + bytes(-len(data) % WORD_BYTES)
            found.append(len(data))
            found += unpack(padded)
        return found


def encode_graphs(part: CudaPart | None) -> bytes:
    """Return the bytes of the section."""
    if part is None:
        return pack([0])
    strings = _Strings()
    pool = _Pool(strings)
    body = [*_images(part, strings), *_globals(part, strings), *_kernels(part, strings), *_snapshots(part, strings)]
    graphs = [word for graph in part.graphs for word in _graph(graph, strings, pool)]
    head = [WITH_LAUNCHES if part.launches else PLAIN, part.base, *part.compute_capability, part.driver]
    tail = _counted(map(_launch, part.launches)) if part.launches else []
    return pack([*head, *strings.words(), *body, *pool.words(), len(part.graphs), *graphs, *tail])


class _Pool:
    """Nodes by number, in the order in which they are first asked for."""

    def __init__(self, strings: _Strings) -> None:
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


def _counted(rows: Iterable[Iterable[int]]) -> list[int]:
    listed = [list(row) for row in rows]
    return [len(listed), *(word for row in listed for word in row)]


def _images(part: CudaPart, strings: _Strings) -> list[int]:
    return _counted((strings(image.sha256), strings(image.library), image.blob) for image in part.images)


def _globals(part: CudaPart, strings: _Strings) -> list[int]:
    return _counted((g.image, strings(g.name), strings(g.data), *_counted(g.pointers)) for g in part.globals)


def _kernels(part: CudaPart, strings: _Strings) -> list[int]:
    return _counted(
        (
            kernel.image,
            strings(kernel.name),
            *_counted(zip(kernel.param_offsets, kernel.param_sizes, strict=True)),
            *_counted(kernel.attributes),
        )
        for kernel in part.kernels
    )


def _snapshots(part: CudaPart, strings: _Strings) -> list[int]:
    return _counted(
        (strings(s.name), s.offset, s.size_bytes, 0 if s.blob is None else s.blob + 1) for s in part.snapshots
    )


def _node(node: GraphNode, strings: _Strings) -> list[int]:
    match node:
        case KernelNode():
            attributes = _counted((name, strings(raw)) for name, raw in node.attributes)
            return [LAUNCH, node.kernel, *node.grid, *node.block, node.shared_bytes, strings(node.params), *attributes]
        case MemsetNode():
            return [FILL, node.pitch, node.value, node.element_bytes, node.width, node.height]
        case MemcpyNode():
            box = (node.width, node.height, node.depth)
            return [COPY, *box, *_pitches(node)]


def _pitches(node: MemcpyNode) -> tuple[int, int, int, int]:
    return node.destination_pitch, node.destination_height, node.source_pitch, node.source_height


def _graph(graph: Graph, strings: _Strings, pool: _Pool) -> list[int]:
    philox = (0, 0) if graph.philox is None else (graph.philox[0] + 1, graph.philox[1])
    numbers = [(pool(node), op) for node, op in zip(graph.nodes, graph.node_ops, strict=True)]
    return [
        *philox,
        *_counted([strings(op)] for op in graph.ops),
        *_counted(numbers),
        *_counted(graph.relocations),
        *_counted(graph.edges),
    ]


def _launch(launch: Launch) -> list[int]:
    return [launch.graph, *_counted(map(_move, launch.before)), *_counted(map(_move, launch.after))]


def _move(move: Move) -> tuple[int, int, int]:
    return move.destination, move.source, move.size_bytes


def decode_graphs(data: bytes, blobs: int) -> CudaPart | None:
    """Read the section of a plan with so many blobs. Raises PlanError CAD5201 to CAD5205."""
    words = Words(SECTION, data)
    kind = words.take(0, 3, "0, 1 or 2")
    if kind == NO_PART:
        words.finish()
        return None
    reader = _Reader(words, blobs)
    part = reader.part(kind == WITH_LAUNCHES)
    words.finish()
    reader.require_one_form()
    return part


class _FirstUse:
    """Checks that numbers are first used in ascending order, so that there is one way to write a pool."""

    def __init__(self) -> None:
        self.used, self.in_order = 0, True

    def __call__(self, numbers: Iterable[int]) -> list[int]:
        """Note the next numbers in the order of use; return those that are new."""
        fresh = []
        for number in dict.fromkeys(numbers):
            if number >= self.used:
                self.in_order = self.in_order and number == self.used
                self.used = number + 1
                fresh.append(number)
        return fresh


class _Reader:
    """Reads the section front to back, what is long of it in bulk."""

    def __init__(self, words: Words, blobs: int) -> None:
        self.words, self.blobs = words, blobs
        self.strings: list[bytes] = []
        self._texts: dict[int, str] = {}
        self.pool: list[GraphNode] = []
        self._raw_nodes: set[bytes] = set()
        self._asked: list[int] = []  # the strings that were asked for before the nodes
        self._node_strings: list[tuple[int, ...]] = []  # of each node of the pool, in which order they were numbered
        self._attributes: dict[bytes, tuple[tuple[tuple[int, bytes], ...], tuple[int, ...]]] = {}
        self._string_order, self._node_order = _FirstUse(), _FirstUse()

    def part(self, with_launches: bool) -> CudaPart:
        take = self.words.take
        base = take(0, MAX, "an address")
        capability = (take(1, 256, "a compute capability"), take(0, 256, "a compute capability"))
        driver = take(0, MAX, "a driver version")
        self.strings = self._read_strings()
        images = tuple(self._image() for _ in range(self.words.count("images", 3)))
        variables = tuple(self._global(len(images)) for _ in range(self.words.count("globals", 4)))
        kernels = tuple(self._kernel(len(images)) for _ in range(self.words.count("kernels", 4)))
        snapshots = tuple(self._snapshot() for _ in range(self.words.count("snapshots", 4)))
        self._string_order(self._asked)
        launch = (len(kernels), *[MAX + 1] * 7, len(self.strings))
        self.pool = [self._pooled(launch) for _ in range(self.words.count("nodes", 6))]
        graphs = tuple(self._graph() for _ in range(self.words.count("graphs", 6)))
        launches = self._launches(len(graphs)) if with_launches else ()
        return CudaPart(base, capability, driver, images, variables, kernels, graphs, snapshots, launches)

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

    def _read_strings(self) -> list[bytes]:
        found = []
        for _ in range(self.words.count("strings")):
            size = self.words.take(0, MAX_STRING_BYTES + 1, "the length of a string")
            padded = self.words.bytes(-(-size // WORD_BYTES), "a string")
            if any(padded[size:]):
                raise PlanError(
                    "CAD5203", "a string of section `graphs` is not padded with zeros", expected="zeros", got="others"
                )
            found.append(padded[:size])
        return found

    def _bytes(self) -> bytes:
        self._asked.append(self.words.take(0, len(self.strings), "a string"))
        return self.strings[self._asked[-1]]

    def _text(self) -> str:
        self._bytes()
        return self._text_of(self._asked[-1])

    def _text_of(self, number: int) -> str:
        try:
            if number not in self._texts:
                self._texts[number] = self.strings[number].decode()
            return self._texts[number]
        except UnicodeDecodeError:
            raise PlanError(
                "CAD5205",
                "a name of section `graphs` is no text",
                expected="UTF-8",
                got=self.strings[number][:16].hex(),
            ) from None

    def _rows(self, what: str, make: Callable[..., Row_co], width: int) -> Rows[Row_co]:
        count = self.words.count(what, width)
        return Rows(make, width, self.words.block(count * width, what))

    def _pairs(self, what: str) -> tuple[tuple[int, int], ...]:
        first, second = self._rows(what, lambda *pair: pair, 2).columns()
        return tuple(zip(first, second, strict=True))

    def _image(self) -> KernelImage:
        digest, library = self._text(), self._text()
        return KernelImage(digest, self.words.take(0, self.blobs, "a blob"), library)

    def _global(self, images: int) -> DeviceGlobal:
        image = self.words.take(0, images, "an image")
        name, data = self._text(), self._bytes()
        return DeviceGlobal(image, name, data, self._pairs("pointers"))

    def _kernel(self, images: int) -> Kernel:
        image, name = self.words.take(0, images, "an image"), self._text()
        params = self._pairs("params")
        return Kernel(image, name, tuple(p[0] for p in params), tuple(p[1] for p in params), self._pairs("attributes"))

    def _snapshot(self) -> Snapshot:
        name = self._text()
        offset, size = self.words.many(2, "a snapshot")
        blob = self.words.take(0, self.blobs + 1, "a blob")
        return Snapshot(name, offset, size, blob - 1 if blob else None)

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
        named = self.words.indices(self.words.count("ops"), len(self.strings), "a string")
        ops = tuple(map(self._text_of, named))
        nodes, node_ops = self._nodes_of(max(len(ops), 1))
        self._string_order(named)
        relocations = self._rows("relocations", Relocation, 3)
        edges = self._rows("edges", Edge, 5)
        for column in edges.columns()[2:]:
            if max(column, default=0) > MAX_EDGE_BYTE:
                raise self.words.out_of_range("ports and type of an edge", 0, MAX_EDGE_BYTE + 1, max(column))
        return Graph(nodes, relocations, edges, ops, node_ops, (offset - 1, step) if offset else None)

    def _launches(self, graphs: int) -> tuple[Launch, ...]:
        """Read the launches, which are not just the graphs in their order: that needs no table."""
        found = tuple(
            Launch(self.words.take(0, graphs, "a graph"), self._moves(), self._moves())
            for _ in range(self.words.count("launches", 3))
        )
        if found == tuple(map(Launch, range(graphs))):
            raise self.words.out_of_range("launches that share graphs or move rows", 1, 2, 0)
        return found

    def _moves(self) -> tuple[Move, ...]:
        words = self.words.block(3 * self.words.count("moves", 3), "moves")
        return tuple(map(Move, words[::3], words[1::3], words[2::3]))

    def _nodes_of(self, ops: int) -> tuple[tuple[GraphNode, ...], tuple[int, ...]]:
        """Read the nodes of a graph with so many ops, which are nodes of the pool, and the op of each."""
        numbers, node_ops = self._rows("nodes", lambda *row: row, 2).columns()
        if max(numbers, default=-1) >= len(self.pool) or max(node_ops, default=-1) >= ops:
            rows = zip(numbers, node_ops, strict=True)
            wrong = next(max(row) for row in rows if row[0] >= len(self.pool) or row[1] >= ops)
            raise self.words.out_of_range("a node or an op", 0, max(len(self.pool), ops), wrong)
        for number in self._node_order(numbers):
            self._string_order(self._node_strings[number])
        return tuple(map(self.pool.__getitem__, numbers)), tuple(node_ops)
