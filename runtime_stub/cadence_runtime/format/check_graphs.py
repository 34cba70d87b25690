"""The rules of a plan's CUDA part: whatever a graph touches lies inside the arena, by the plan's own numbers.

What only the driver knows (that a kernel's parameters have these sizes, that a function exists) is compared at load.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress, pairwise
from typing import Any

from cadence_runtime.errors import PlanError
from cadence_runtime.format.check_launches import launch_errors
from cadence_runtime.format.cubin import Cubin, CubinError, read_cubin
from cadence_runtime.format.cuda import (
    CudaPart,
    DeviceGlobal,
    Edge,
    Graph,
    GraphNode,
    Kernel,
    KernelNode,
    MemcpyNode,
    MemsetNode,
    Relocation,
)
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.rows import columns
from cadence_runtime.format.strict_json import shown

WORD_BYTES = 8
PHILOX_BYTES = 16
ATTRIBUTE_BYTES = 64
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024
MAX_SHARED_BYTES = 1 << 20
MAX_PARAMS_BYTES = 32764
FUNCTION_ATTRIBUTES = frozenset([8, 9, 11, 12, 13, 14, 15])
"""What may be set of a function (CUfunction_attribute): shared memory and clusters."""
LAUNCH_ATTRIBUTES = frozenset([2, 3, 4, 5, 6, 8, 9, 10, 11, 14])
"""What may be set of a launch (CUlaunchAttributeID). The others hold addresses or handles of a process, which the
driver would follow."""
RELOCATION_WORDS, EDGE_WORDS = len(Relocation._fields), len(Edge._fields)
MOVE_BYTES = 16
"""The relocation words of a fill or copy take no more."""
NODE_KINDS = {MemsetNode: (0,), MemcpyNode: (0, 8)}
"""The relocation words that a fill and a copy have, all of them."""


def graph_errors(plan: Plan) -> Iterator[PlanError]:
    """Yield CAD5701 to CAD5708; nothing for a plan without a CUDA part."""
    part = plan.cuda
    if part is None:
        return
    size = max((section.offset + section.size_bytes for section in plan.sections), default=0)
    yield from launch_errors(plan, part)
    yield from _bad_part(plan, part, size)
    seen: set[int] = set()
    for number, graph in enumerate(part.graphs):
        yield from _bad_graph(part, graph, size, f"graph {number}", seen)


def _error(code: str, what: str, expected: str, got: str, at: str | None = None) -> PlanError:
    return PlanError(code, what, expected=expected, got=got, at=at)


def _bad_range(what: str, offset: int, size_bytes: int, upper: int, at: str) -> Iterator[PlanError]:
    if offset < 0 or offset + size_bytes > upper:
        got = f"bytes {offset} to {offset + size_bytes}"
        yield _error("CAD5702", f"{what} lies outside of the arena", f"within {upper} bytes", got, at)


def _bad_names(part: CudaPart) -> Iterator[PlanError]:
    """Names go into messages and onto screens as they are."""
    names = {
        *(image.library for image in part.images),
        *(variable.name for variable in part.globals),
        *(kernel.name for kernel in part.kernels),
        *(snapshot.name for snapshot in part.snapshots),
        *(op for graph in part.graphs for op in graph.ops),
    }
    for name in sorted(names):
        if not name.isprintable():
            yield _error("CAD5707", "a name of the CUDA part is not printable", "printable text", shown(name))
            return


def _bad_part(plan: Plan, part: CudaPart, size: int) -> Iterator[PlanError]:
    yield from _bad_names(part)
    cubins: dict[int, Cubin] = {}
    for number, image in enumerate(part.images):
        content = plan.blobs[image.blob]
        try:
            if isinstance(content, bytes):  # an outline has lengths only
                cubins[number] = read_cubin(content)
        except CubinError as error:
            yield _error("CAD5703", "an image is no cubin", "an ELF file of NVIDIA's", str(error), f"image {number}")
    for variable in part.globals:
        yield from _bad_variable(part, variable, size)
    for kernel in part.kernels:
        yield from _bad_kernel(part, kernel, cubins)
    for snapshot in part.snapshots:
        at = f"snapshot {shown(snapshot.name)}"
        yield from _bad_range("a snapshot", snapshot.offset, snapshot.size_bytes, size, at)
        if snapshot.blob is None:
            continue
        if not 0 <= snapshot.blob < len(plan.blobs) or len(plan.blobs[snapshot.blob]) != snapshot.size_bytes:
            expected = f"a blob of {snapshot.size_bytes} bytes"
            yield _error("CAD5703", "a snapshot has no blob of its size", expected, f"blob {snapshot.blob}", at)


def _bad_variable(part: CudaPart, variable: DeviceGlobal, size: int) -> Iterator[PlanError]:
    at = f"device variable {shown(variable.name)}"
    if not 0 <= variable.image < len(part.images):
        yield _error("CAD5703", "an image is not there", f"0 to {len(part.images) - 1}", str(variable.image), at)
    places = [place for place, _ in variable.pointers]
    if any(after < before + WORD_BYTES for before, after in pairwise(places)):
        yield _error("CAD5704", "pointers of a variable share bytes", "sorted, 8 bytes each", shown(places), at)
    for place, offset in variable.pointers:
        if not 0 <= place <= len(variable.data) - WORD_BYTES:
            expected = f"8 bytes within {len(variable.data)}"
            yield _error("CAD5704", "a pointer lies outside of its variable", expected, f"from byte {place}", at)
        yield from _bad_range("a pointer's target", offset, 0, size, at)


def _bad_kernel(part: CudaPart, kernel: Kernel, cubins: Mapping[int, Cubin]) -> Iterator[PlanError]:
    at = f"kernel {shown(kernel.name)}"
    if not 0 <= kernel.image < len(part.images):
        yield _error("CAD5703", "an image is not there", f"0 to {len(part.images) - 1}", str(kernel.image), at)
    declared = tuple(zip(kernel.param_offsets, kernel.param_sizes, strict=True))
    ends = [offset + length for offset, length in declared]
    if any(end > offset for end, offset in zip(ends, kernel.param_offsets[1:], strict=False)):
        expected, got = "ascending, side by side", shown(kernel.param_offsets)
        yield _error("CAD5703", "the parameters of a kernel overlap", expected, got, at)
    if max(ends, default=0) > MAX_PARAMS_BYTES:
        expected, got = f"at most {MAX_PARAMS_BYTES} bytes", f"{max(ends)} bytes"
        yield _error("CAD5703", "a kernel has more parameters than a device takes", expected, got, at)
    if kernel.image in cubins:
        yield from _bad_code(kernel, declared, cubins[kernel.image], at)
    names = [name for name, _ in kernel.attributes]
    if not _ascending(names) or not FUNCTION_ATTRIBUTES.issuperset(names):
        expected = f"some of {sorted(FUNCTION_ATTRIBUTES)}, sorted"
        yield _error("CAD5706", "the attributes of a kernel make no sense", expected, shown(names), at)
    if any(not -(2**31) <= value < 2**31 for _, value in kernel.attributes):
        got = shown([value for _, value in kernel.attributes])
        yield _error("CAD5706", "the attributes of a kernel make no sense", "32 bits each", got, at)


def _bad_code(kernel: Kernel, declared: tuple[tuple[int, int], ...], cubin: Cubin, at: str) -> Iterator[PlanError]:
    """Hold a kernel to what its image says; one of which the image does not tell the parameters is asked at load."""
    if not cubin.has_kernel(kernel.name):
        yield _error("CAD5703", "a kernel is not in its image", f"section `.text.{kernel.name[:60]}`", "none", at)
    parameters = cubin.parameters(kernel.name)
    if parameters and parameters != declared:
        what = "a kernel takes other parameters than its image says"
        yield _error("CAD5703", what, shown(parameters), shown(declared), at)


def _bad_graph(part: CudaPart, graph: Graph, size: int, where: str, seen: set[int]) -> Iterator[PlanError]:
    """`seen` has the ids of the nodes that were looked at: graphs have most in common, and a reader makes each once."""
    yield from _bad_ops(graph, where)
    for node in graph.nodes:
        if isinstance(node, KernelNode) and id(node) not in seen:
            seen.add(id(node))
            yield from _bad_launch(part, node, graph, where)
    yield from _bad_relocations(graph, size, where)
    before, after, *_ = edges = columns(graph.edges, EDGE_WORDS)
    inside = min(before, default=0) >= 0 and max(after, default=-1) < len(graph.nodes)
    if not inside or not all(map(operator.lt, before, after)):
        wrong = next(edge for edge in graph.edges if not 0 <= edge.before < edge.after < len(graph.nodes))
        what = "an edge does not lead forward: the order of the nodes is not topological"
        expected, got = f"before < after < {len(graph.nodes)}", f"{wrong.before} to {wrong.after}"
        yield _error("CAD5705", what, expected, got, where)
    if not _ascending(tuple(zip(*edges, strict=True))):
        yield _error("CAD5705", "the edges of a graph are not sorted", "each once", "another order", where)
    if graph.philox is not None:
        yield from _bad_range("the state of the generator", graph.philox[0], PHILOX_BYTES, size, where)


def _bad_ops(graph: Graph, where: str) -> Iterator[PlanError]:
    if len(graph.node_ops) != len(graph.nodes):
        expected, got = f"{len(graph.nodes)} of them", str(len(graph.node_ops))
        yield _error("CAD5703", "not every node has the number of its op", expected, got, where)
    last = max(len(graph.ops) - 1, 0)
    if min(graph.node_ops, default=0) < 0 or max(graph.node_ops, default=0) > last:
        for number, op in enumerate(graph.node_ops):
            if not 0 <= op <= last:
                yield _error("CAD5703", "an op is not there", f"0 to {last}", str(op), f"{where}, node {number}")


def _bad_launch(part: CudaPart, node: KernelNode, graph: Graph, where: str) -> Iterator[PlanError]:
    if not 0 <= node.kernel < len(part.kernels):
        at = _place(graph, node, where)
        yield _error("CAD5703", "a kernel is not there", f"0 to {len(part.kernels) - 1}", str(node.kernel), at)
        return
    kernel = part.kernels[node.kernel]
    length = _params_bytes(kernel)
    if len(node.params) != length:
        what = f"a launch has other parameters than kernel {shown(kernel.name)}"
        at = _place(graph, node, where)
        yield _error("CAD5703", what, f"{length} bytes", f"{len(node.params)} bytes", at)
    threads = node.block[0] * node.block[1] * node.block[2]
    inside = _within(node.grid, MAX_GRID) and _within(node.block, MAX_BLOCK) and threads <= MAX_THREADS
    if not inside or not 0 <= node.shared_bytes <= MAX_SHARED_BYTES:
        expected = (
            f"a grid up to {MAX_GRID}, a block up to {MAX_BLOCK} and {MAX_THREADS} threads, {MAX_SHARED_BYTES} bytes"
        )
        got = f"grid {node.grid}, block {node.block}, {node.shared_bytes} bytes"
        at = _place(graph, node, where)
        yield _error("CAD5706", "a launch has dimensions that no device takes", expected, got, at)
    names = [name for name, _ in node.attributes]
    if names != sorted(set(names)) or any(len(raw) != ATTRIBUTE_BYTES for _, raw in node.attributes):
        expected = f"{ATTRIBUTE_BYTES} bytes each, sorted"
        at = _place(graph, node, where)
        yield _error("CAD5706", "the attributes of a launch make no sense", expected, shown(names), at)
    foreign = [name for name, raw in node.attributes if name not in LAUNCH_ATTRIBUTES and any(raw)]
    if foreign:
        expected, at = f"some of {sorted(LAUNCH_ATTRIBUTES)}, or zeros", _place(graph, node, where)
        yield _error("CAD5706", "a launch has an attribute that no plan can fill", expected, str(foreign[0]), at)


def _place(graph: Graph, node: GraphNode, where: str) -> str:
    return f"{where}, node {graph.nodes.index(node)}"


@lru_cache(maxsize=1 << 12)
def _params_bytes(kernel: Kernel) -> int:
    ends = (offset + length for offset, length in zip(kernel.param_offsets, kernel.param_sizes, strict=True))
    return max(ends, default=0)


def _ascending(rows: Sequence[Any]) -> bool:
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
        yield from _bad_move(graph.nodes[number], words, size, f"{where}, node {number}")


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
    if not _ascending([(entry.node, entry.word) for entry in graph.relocations]):
        yield _error("CAD5704", "the relocations of a graph are not sorted", "each once", "another order", where)
    before = Relocation(-1, 0, 0)
    for entry in graph.relocations:
        if not 0 <= entry.node < len(graph.nodes):
            yield _error("CAD5704", "a relocation has no node", f"0 to {len(graph.nodes) - 1}", str(entry.node), where)
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
        yield _error("CAD5704", "a relocation is no word of its node", expected, f"from byte {entry.word}", at)
    yield from _bad_range("a pointer", entry.offset, 0, size, at)
    if shared is not None:
        expected, got = f"{WORD_BYTES} bytes of its own", f"bytes {shared.word} and {entry.word}"
        yield _error("CAD5704", "two relocations share bytes", expected, got, at)


def _bad_move(node: GraphNode, words: dict[int, int], size: int, at: str) -> Iterator[PlanError]:
    wanted = NODE_KINDS[type(node)]
    if words.keys() != set(wanted):
        what = "a fill or copy has other addresses than it needs"
        yield _error("CAD5704", what, f"words {wanted}", f"words {tuple(sorted(words))}", at)
    elif isinstance(node, MemsetNode):
        if node.element_bytes not in (1, 2, 4) or node.value >> 8 * node.element_bytes:
            expected, got = "1, 2 or 4 bytes", f"the value {node.value} in {node.element_bytes} bytes"
            yield _error("CAD5706", "a fill has elements that no device takes", expected, got, at)
        yield from _bad_range("a fill", words[0], _fill_bytes(node), size, at)
    elif isinstance(node, MemcpyNode):
        rows = (node.destination_pitch, node.destination_height), (node.source_pitch, node.source_height)
        for word, (pitch, height) in zip(wanted, rows, strict=True):
            yield from _bad_range("a copy", words[word], _box_bytes(node, pitch, height), size, at)


def _fill_bytes(node: MemsetNode) -> int:
    return 0 if 0 in (node.width, node.height) else (node.height - 1) * node.pitch + node.width * node.element_bytes


def _box_bytes(node: MemcpyNode, pitch: int, height: int) -> int:
    if 0 in (node.width, node.height, node.depth):
        return 0
    return (node.depth - 1) * pitch * height + (node.height - 1) * pitch + node.width
