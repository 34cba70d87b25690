"""The CUDA part as words: images, kernels and whole nodes stand once, and a graph lists numbers of nodes.

    head        1, or 0 and nothing else for a plan without a CUDA part; base, compute capability (2), driver
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

A second key of the same topology costs its differences: launches with equal parameters are one node of the pool.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

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
    MemcpyNode,
    MemsetNode,
    Relocation,
    Snapshot,
)
from cadence_runtime.format.words import WORD_BYTES, Words, pack

SECTION = "graphs"
LAUNCH, FILL, COPY = range(3)
MAX_STRING_BYTES = 1 << 20
MAX = 2**63 - 1


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
            found += [
                int.from_bytes(padded[at : at + WORD_BYTES], "little", signed=True)
                for at in range(0, len(padded), WORD_BYTES)
            ]
        return found


def encode_graphs(part: CudaPart | None) -> bytes:
    """Return the bytes of the section."""
    if part is None:
        return pack([0])
    strings = _Strings()
    nodes: dict[GraphNode, int] = {}
    body = [*_images(part, strings), *_globals(part, strings), *_kernels(part, strings), *_snapshots(part, strings)]
    graphs = [word for graph in part.graphs for word in _graph(graph, strings, nodes)]
    pool = [word for node in nodes for word in _node(node, strings)]
    head = [1, part.base, *part.compute_capability, part.driver]
    return pack([*head, *strings.words(), *body, len(nodes), *pool, len(part.graphs), *graphs])


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


def _graph(graph: Graph, strings: _Strings, nodes: dict[GraphNode, int]) -> list[int]:
    philox = (0, 0) if graph.philox is None else (graph.philox[0] + 1, graph.philox[1])
    numbers = [(nodes.setdefault(replace(node, op=0), len(nodes)), node.op) for node in graph.nodes]
    for node in graph.nodes:
        _node(node, strings)  # so that strings are numbered before they are written
    return [
        *philox,
        *_counted([strings(op)] for op in graph.ops),
        *_counted(numbers),
        *_counted((r.node, r.word, r.offset) for r in graph.relocations),
        *_counted((edge.before, edge.after, *edge.data) for edge in graph.edges),
    ]


def decode_graphs(data: bytes, blobs: int) -> CudaPart | None:
    """Read the section of a plan with so many blobs. Raises PlanError CAD5201 to CAD5204."""
    words = Words(SECTION, data)
    if not words.take(0, 2, "0 or 1"):
        words.finish()
        return None
    reader = _Reader(words, blobs)
    part = reader.part()
    words.finish()
    if encode_graphs(part) != data:
        raise PlanError(
            "CAD5204",
            "section `graphs` is not in its one form",
            expected="strings and nodes once each, in the order of their first use",
            got="another order, or something twice",
        )
    return part


class _Reader:
    """Reads the section front to back."""

    def __init__(self, words: Words, blobs: int) -> None:
        self.words, self.blobs = words, blobs
        self.strings: list[bytes] = []

    def part(self) -> CudaPart:
        take = self.words.take
        base = take(0, MAX, "an address")
        capability = (take(1, 256, "a compute capability"), take(0, 256, "a compute capability"))
        driver = take(0, MAX, "a driver version")
        self.strings = self._read_strings()
        images = tuple(self._image() for _ in range(self.words.count("images", 3)))
        variables = tuple(self._global(len(images)) for _ in range(self.words.count("globals", 4)))
        kernels = tuple(self._kernel(len(images)) for _ in range(self.words.count("kernels", 4)))
        snapshots = tuple(self._snapshot() for _ in range(self.words.count("snapshots", 4)))
        pool = [self._node(len(kernels)) for _ in range(self.words.count("nodes", 6))]
        graphs = tuple(self._graph(pool) for _ in range(self.words.count("graphs", 6)))
        return CudaPart(base, capability, driver, images, variables, kernels, graphs, snapshots)

    def _read_strings(self) -> list[bytes]:
        found = []
        for _ in range(self.words.count("strings")):
            size = self.words.take(0, MAX_STRING_BYTES + 1, "the length of a string")
            padded = pack(self.words.many(-(-size // WORD_BYTES), "a string", lower=-(2**63)))
            if any(padded[size:]):
                raise PlanError(
                    "CAD5203", "a string of section `graphs` is not padded with zeros", expected="zeros", got="others"
                )
            found.append(padded[:size])
        return found

    def _bytes(self) -> bytes:
        return self.strings[self.words.take(0, len(self.strings), "a string")]

    def _text(self) -> str:
        raw = self._bytes()
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise PlanError(
                "CAD5205", "a name of section `graphs` is no text", expected="UTF-8", got=raw[:16].hex()
            ) from None

    def _rows(self, width: int, what: str) -> tuple[tuple[int, ...], ...]:
        count = self.words.count(what, width)
        flat = self.words.many(count * width, what)
        return tuple(tuple(flat[at : at + width]) for at in range(0, len(flat), width))

    def _image(self) -> KernelImage:
        digest, library = self._text(), self._text()
        return KernelImage(digest, self.words.take(0, self.blobs, "a blob"), library)

    def _global(self, images: int) -> DeviceGlobal:
        image = self.words.take(0, images, "an image")
        name, data = self._text(), self._bytes()
        return DeviceGlobal(image, name, data, tuple((at, to) for at, to in self._rows(2, "pointers")))

    def _kernel(self, images: int) -> Kernel:
        image, name = self.words.take(0, images, "an image"), self._text()
        params = self._rows(2, "params")
        attributes = tuple((key, value) for key, value in self._rows(2, "attributes"))
        return Kernel(image, name, tuple(p[0] for p in params), tuple(p[1] for p in params), attributes)

    def _snapshot(self) -> Snapshot:
        name = self._text()
        offset, size = self.words.many(2, "a snapshot")
        blob = self.words.take(0, self.blobs + 1, "a blob")
        return Snapshot(name, offset, size, blob - 1 if blob else None)

    def _node(self, kernels: int) -> GraphNode:
        kind = self.words.take(0, 3, "a kind of node")
        if kind == FILL:
            pitch, value, element, width, height = self.words.many(5, "a fill")
            return MemsetNode(pitch, value, element, width, height, 0)
        if kind == COPY:
            width, height, depth, to_pitch, to_height, from_pitch, from_height = self.words.many(7, "a copy")
            return MemcpyNode(width, height, depth, to_pitch, to_height, from_pitch, from_height, 0)
        kernel = self.words.take(0, kernels, "a kernel")
        gx, gy, gz, bx, by, bz, shared = self.words.many(7, "a launch")
        params = self._bytes()
        attributes = tuple(
            (self.words.take(0, 256, "an attribute"), self._bytes()) for _ in range(self.words.count("attributes", 2))
        )
        return KernelNode(kernel, (gx, gy, gz), (bx, by, bz), shared, params, attributes, 0)

    def _graph(self, pool: Sequence[GraphNode]) -> Graph:
        offset, step = self.words.many(2, "philox")
        ops = tuple(self._text() for _ in range(self.words.count("ops")))
        numbers = self._rows(2, "nodes")
        for number, op in numbers:
            if number >= len(pool) or op >= max(len(ops), 1):
                raise self.words.out_of_range("a node or an op", 0, max(len(pool), len(ops)), max(number, op))
        nodes = tuple(replace(pool[number], op=op) for number, op in numbers)
        relocations = tuple(Relocation(node, word, to) for node, word, to in self._rows(3, "relocations"))
        edges = tuple(Edge(a, b, (f, t, k)) for a, b, f, t, k in self._rows(5, "edges"))
        return Graph(nodes, relocations, edges, ops, (offset - 1, step) if offset else None)
