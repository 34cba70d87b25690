"""The rules of a graph and its nodes: whatever they touch lies inside the arena, by the plan's own numbers."""

import operator
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

from cadence_runtime.errors import PlanError
from cadence_runtime.format.cuda import (
    CudaPart,
    Edge,
    Graph,
    GraphNode,
    Kernel,
    KernelNode,
    MemcpyNode,
    MemsetNode,
    Relocation,
)
from cadence_runtime.format.rows import columns
from cadence_runtime.format.strict_json import shown

WORD_BYTES = 8
PHILOX_BYTES = 16
ATTRIBUTE_BYTES = 64
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024
MAX_SHARED_BYTES = 1 << 20
LAUNCH_ATTRIBUTES = frozenset([2, 3, 4, 5, 6, 8, 9, 10, 11, 14])
"""What may be set of a launch (CUlaunchAttributeID). The others hold addresses or handles of a process, which the
driver would follow."""
RELOCATION_WORDS, EDGE_WORDS = len(Relocation._fields), len(Edge._fields)
MOVE_BYTES = 16
"""The relocation words of a fill or copy take no more."""
NODE_KINDS = {MemsetNode: (0,), MemcpyNode: (0, 8)}
"""The relocation words that a fill and a copy have, all of them."""


def fault(code: str, what: str, expected: str, got: str, at: str | None = None) -> PlanError:
    """Return an error."""
    return PlanError(code, what, expected=expected, got=got, at=at)


def outside(what: str, offset: int, size_bytes: int, upper: int, at: str) -> Iterator[PlanError]:
    """Yield CAD5702 for bytes that are not all below `upper`."""
    if offset < 0 or offset + size_bytes > upper:
        got = f"bytes {offset} to {offset + size_bytes}"
        yield fault("CAD5702", f"{what} lies outside of the arena", f"within {upper} bytes", got, at)


def graph_errors(part: CudaPart, graph: Graph, size: int, where: str, seen: set[int]) -> Iterator[PlanError]:
    """Yield CAD5702 to CAD5706. `seen` has the ids of the nodes that were looked at: those of a pool stay alive, and
    graphs have most in common."""
    yield from _bad_ops(graph, where)
    for number, node in enumerate(graph.nodes):
        if isinstance(node, KernelNode) and id(node) not in seen:
            seen.add(id(node))
            yield from launch_errors(part, node, f"{where}, node {number}")
    yield from _bad_relocations(graph, size, where)
    before, after, *_ = edges = columns(graph.edges, EDGE_WORDS)
    inside = min(before, default=0) >= 0 and max(after, default=-1) < len(graph.nodes)
    if not inside or not all(map(operator.lt, before, after)):
        wrong = next(edge for edge in graph.edges if not 0 <= edge.before < edge.after < len(graph.nodes))
        what = "an edge does not lead forward: the order of the nodes is not topological"
        expected, got = f"before < after < {len(graph.nodes)}", f"{wrong.before} to {wrong.after}"
        yield fault("CAD5705", what, expected, got, where)
    if not ascending(tuple(zip(*edges, strict=True))):
        yield fault("CAD5705", "the edges of a graph are not sorted", "each once", "another order", where)
    if graph.philox is not None:
        yield from outside("the state of the generator", graph.philox[0], PHILOX_BYTES, size, where)


def _bad_ops(graph: Graph, where: str) -> Iterator[PlanError]:
    if len(graph.node_ops) != len(graph.nodes):
        expected, got = f"{len(graph.nodes)} of them", str(len(graph.node_ops))
        yield fault("CAD5703", "not every node has the number of its op", expected, got, where)
    last = max(len(graph.ops) - 1, 0)
    if min(graph.node_ops, default=0) < 0 or max(graph.node_ops, default=0) > last:
        for number, op in enumerate(graph.node_ops):
            if not 0 <= op <= last:
                yield fault("CAD5703", "an op is not there", f"0 to {last}", str(op), f"{where}, node {number}")


def launch_errors(part: CudaPart, node: KernelNode, at: str) -> Iterator[PlanError]:
    """Yield CAD5703 or CAD5706."""
    if not 0 <= node.kernel < len(part.kernels):
        yield fault("CAD5703", "a kernel is not there", f"0 to {len(part.kernels) - 1}", str(node.kernel), at)
        return
    kernel = part.kernels[node.kernel]
    length = params_bytes(kernel)
    if len(node.params) != length:
        what = f"a launch has other parameters than kernel {shown(kernel.name)}"
        yield fault("CAD5703", what, f"{length} bytes", f"{len(node.params)} bytes", at)
    threads = node.block[0] * node.block[1] * node.block[2]
    inside = _within(node.grid, MAX_GRID) and _within(node.block, MAX_BLOCK) and threads <= MAX_THREADS
    if not inside or not 0 <= node.shared_bytes <= MAX_SHARED_BYTES:
        expected = (
            f"a grid up to {MAX_GRID}, a block up to {MAX_BLOCK} and {MAX_THREADS} threads, {MAX_SHARED_BYTES} bytes"
        )
        got = f"grid {node.grid}, block {node.block}, {node.shared_bytes} bytes"
        yield fault("CAD5706", "a launch has dimensions that no device takes", expected, got, at)
    names = [name for name, _ in node.attributes]
    if names != sorted(set(names)) or any(len(raw) != ATTRIBUTE_BYTES for _, raw in node.attributes):
        expected = f"{ATTRIBUTE_BYTES} bytes each, sorted"
        yield fault("CAD5706", "the attributes of a launch make no sense", expected, shown(names), at)
    foreign = [name for name, raw in node.attributes if name not in LAUNCH_ATTRIBUTES and any(raw)]
    if foreign:
        expected = f"some of {sorted(LAUNCH_ATTRIBUTES)}, or zeros"
        yield fault("CAD5706", "a launch has an attribute that no plan can fill", expected, str(foreign[0]), at)


def params_bytes(kernel: Kernel) -> int:
    """Return how many bytes the parameters of a kernel take."""
    ends = (offset + length for offset, length in zip(kernel.param_offsets, kernel.param_sizes, strict=True))
    return max(ends, default=0)


def ascending(rows: Sequence[Any]) -> bool:
    """Return whether each is less than the next."""
    return all(map(operator.lt, rows, rows[1:]))


def _within(dims: tuple[int, int, int], upper: tuple[int, int, int]) -> bool:
    return 1 <= dims[0] <= upper[0] and 1 <= dims[1] <= upper[1] and 1 <= dims[2] <= upper[2]


def _bad_relocations(graph: Graph, size: int, where: str) -> Iterator[PlanError]:
    """Every pointer of the graph is inside its node's parameters and leads inside the arena; fills and copies have
    theirs and stay inside with all their bytes."""
    table = columns(graph.relocations, RELOCATION_WORDS)
    if not relocations_fit(graph.nodes, table, size):
        yield from _bad_rows(graph, size, where)
    moves: dict[int, dict[int, int]] = {
        number: {} for number, node in enumerate(graph.nodes) if not isinstance(node, KernelNode)
    }
    for number, word, offset in compress(zip(*table, strict=True), map(moves.__contains__, table[0])):
        moves[number][word] = offset
    for number, words in moves.items():
        yield from move_errors(graph.nodes[number], words, size, f"{where}, node {number}")


def relocations_fit(nodes: Sequence[GraphNode], table: Sequence[Sequence[int]], size: int) -> bool:
    """Return whether relocations, as columns, are sorted, share no bytes, and lie in their nodes and in the arena. Asks
    of whole columns what `_bad_rows` asks of each row, which then says what is wrong."""
    numbers, words, offsets = table
    if not numbers:
        return True
    if min(words) < 0 or min(offsets) < 0 or max(offsets) > size:
        return False
    stride = max(words) + 2 * WORD_BYTES  # no two words of a node are as far apart
    places = [number * stride + word for number, word in zip(numbers, words, strict=True)]
    apart = min(map(operator.sub, places[1:], places), default=WORD_BYTES)
    if apart < WORD_BYTES or numbers[0] < 0 or numbers[-1] >= len(nodes):
        return False
    ends = [len(node.params) if isinstance(node, KernelNode) else MOVE_BYTES for node in nodes]
    return all(map(operator.le, map(WORD_BYTES.__add__, words), map(ends.__getitem__, numbers)))


def _bad_rows(graph: Graph, size: int, where: str) -> Iterator[PlanError]:
    if not ascending([(entry.node, entry.word) for entry in graph.relocations]):
        yield fault("CAD5704", "the relocations of a graph are not sorted", "each once", "another order", where)
    before = Relocation(-1, 0, 0)
    for entry in graph.relocations:
        if not 0 <= entry.node < len(graph.nodes):
            yield fault("CAD5704", "a relocation has no node", f"0 to {len(graph.nodes) - 1}", str(entry.node), where)
            continue
        shared = entry.node == before.node and entry.word < before.word + WORD_BYTES
        yield from _bad_relocation(graph.nodes[entry.node], entry, before if shared else None, size, where)
        before = entry


def _bad_relocation(
    node: GraphNode, entry: Relocation, shared: Relocation | None, size: int, where: str
) -> Iterator[PlanError]:
    at = f"{where}, node {entry.node}"
    if isinstance(node, KernelNode) and not 0 <= entry.word <= len(node.params) - WORD_BYTES:
        expected = f"8 bytes within {len(node.params)}"
        yield fault("CAD5704", "a relocation is no word of its node", expected, f"from byte {entry.word}", at)
    yield from outside("a pointer", entry.offset, 0, size, at)
    if shared is not None:
        expected, got = f"{WORD_BYTES} bytes of its own", f"bytes {shared.word} and {entry.word}"
        yield fault("CAD5704", "two relocations share bytes", expected, got, at)


def move_errors(node: GraphNode, words: dict[int, int], size: int, at: str) -> Iterator[PlanError]:
    """Yield CAD5702, CAD5704 or CAD5706 for a fill or copy whose words lead to these offsets."""
    wanted = NODE_KINDS[type(node)]
    if words.keys() != set(wanted):
        what = "a fill or copy has other addresses than it needs"
        yield fault("CAD5704", what, f"words {wanted}", f"words {tuple(sorted(words))}", at)
    elif isinstance(node, MemsetNode):
        if node.element_bytes not in (1, 2, 4) or node.value >> 8 * node.element_bytes:
            expected, got = "1, 2 or 4 bytes", f"the value {node.value} in {node.element_bytes} bytes"
            yield fault("CAD5706", "a fill has elements that no device takes", expected, got, at)
        yield from outside("a fill", words[0], _fill_bytes(node), size, at)
    elif isinstance(node, MemcpyNode):
        rows = (node.destination_pitch, node.destination_height), (node.source_pitch, node.source_height)
        for word, (pitch, height) in zip(wanted, rows, strict=True):
            yield from outside("a copy", words[word], _box_bytes(node, pitch, height), size, at)


def _fill_bytes(node: MemsetNode) -> int:
    return 0 if 0 in (node.width, node.height) else (node.height - 1) * node.pitch + node.width * node.element_bytes


def _box_bytes(node: MemcpyNode, pitch: int, height: int) -> int:
    if 0 in (node.width, node.height, node.depth):
        return 0
    return (node.depth - 1) * pitch * height + (node.height - 1) * pitch + node.width
