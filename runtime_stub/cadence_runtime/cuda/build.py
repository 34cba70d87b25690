"""From a plan's graphs to executables: relocate, add nodes in order, instantiate.

All parameter bytes of a graph stand in one host buffer and all parameter pointers in another, both made at once with
numpy; what is left a node is the driver's own call.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np

from cadence_runtime.cuda.driver import Driver, Handle
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import Graph, Kernel, KernelNode, MemcpyNode, MemsetNode
from cadence_runtime.format.rows import columns
from cadence_runtime.format.source import located
from cadence_runtime.frozen import frozen

PARAM_ALIGNMENT = 16
ADDRESSES_BYTES = 16


@frozen
class Addresses:
    """Where the arena stands for one lane: offsets below `lent_bytes` are relative to `shared`, which all lanes have in
    common, the others to `own`. For the first lane both are the address of the whole arena."""

    own: int
    shared: int
    lent_bytes: int

    def of(self, offset: int) -> int:
        """Return the address of an arena offset."""
        return offset + (self.shared if offset < self.lent_bytes else self.own)


class Parameters:
    """The relocated parameter bytes of a graph's launches, and the pointer arrays that the driver reads. Must outlive
    the calls that add the nodes, and nothing longer."""

    def __init__(self, graph: Graph, kernels: Sequence[Kernel], addresses: Addresses) -> None:
        """`starts` are where the bytes of each node begin, and `tables` the host addresses of their pointers."""
        held = [node.params if isinstance(node, KernelNode) else bytes(ADDRESSES_BYTES) for node in graph.nodes]
        padded = [raw + bytes(-len(raw) % PARAM_ALIGNMENT) for raw in held]
        self.starts = [0, *accumulate(map(len, padded))][: len(padded)]
        self._raw = bytearray(b"".join(padded) or PARAM_ALIGNMENT)
        self.bytes = np.frombuffer(self._raw, np.uint8)
        self._relocate(graph, addresses)
        offsets = [kernels[node.kernel].param_offsets if isinstance(node, KernelNode) else () for node in graph.nodes]
        counts = np.array([len(row) for row in offsets], np.int64)
        within = np.fromiter(chain.from_iterable(offsets), np.int64)
        self._pointers = np.repeat(np.array(self.starts, np.int64), counts) + within + self.bytes.ctypes.data
        self.tables: list[int] = (self._pointers.ctypes.data + 8 * (np.cumsum(counts) - counts)).tolist()

    def _relocate(self, graph: Graph, addresses: Addresses) -> None:
        if not graph.relocations:
            return
        nodes, places, offsets = (np.array(column, np.int64) for column in columns(graph.relocations, 3))
        at = np.array(self.starts, np.int64)[nodes] + places
        bases = np.where(offsets < addresses.lent_bytes, addresses.shared, addresses.own)
        words = (offsets + bases).astype("<u8")
        # Words need not be aligned to eight bytes, so they are written byte by byte.
        self.bytes[at[:, None] + np.arange(8)] = words.view(np.uint8).reshape(-1, 8)

    def word(self, node: int, word: int) -> int:
        """Return the relocated eight-byte word of a node."""
        start = self.starts[node] + word
        return int.from_bytes(self._raw[start : start + 8], "little")


def build(
    driver: Driver, graph: Graph, kernels: Sequence[Kernel], functions: Sequence[Handle], addresses: Addresses
) -> Handle:
    """Rebuild a graph for where the arena stands and return its executable."""
    parameters = Parameters(graph, kernels, addresses)
    made = driver.new_graph()
    try:
        nodes = _add_nodes(driver, made, graph, kernels, functions, parameters)
        for before, after, *data in zip(*columns(graph.edges, 5), strict=True):
            if any(data):
                driver.add_edge(made, nodes[before], nodes[after], (data[0], data[1], data[2]))
    except BaseException:
        driver.destroy_graph(made)
        raise
    return driver.instantiate(made)


def _add_nodes(
    driver: Driver,
    made: Handle,
    graph: Graph,
    kernels: Sequence[Kernel],
    functions: Sequence[Handle],
    parameters: Parameters,
) -> list[Handle]:
    """Add every node with its plain dependencies; those that carry data are added by the caller."""
    after: dict[int, list[int]] = defaultdict(list)
    for one, other, *data in zip(*columns(graph.edges, 5), strict=True):
        if not any(data):
            after[other].append(one)
    nodes: list[Handle] = []
    try:
        for index, node in enumerate(graph.nodes):
            before = [nodes[other] for other in after[index]]
            if isinstance(node, KernelNode):
                added = driver.add_kernel(made, before, node, functions[node.kernel], parameters.tables[index])
            elif isinstance(node, MemsetNode):
                added = driver.add_memset(made, before, node, parameters.word(index, 0))
            else:
                added = driver.add_memcpy(made, before, node, parameters.word(index, 0), parameters.word(index, 8))
            nodes.append(added)
    except DeviceError as error:
        raise located(error, node_name(graph, kernels, len(nodes))) from None
    return nodes


def node_name(graph: Graph, kernels: Sequence[Kernel], index: int) -> str:
    """Name a node for a message: its place, its kernel, and the op that it came from."""
    node = graph.nodes[index]
    match node:
        case KernelNode():
            what = f"kernel `{kernels[node.kernel].name}`"
        case MemsetNode():
            what = "a fill"
        case MemcpyNode():
            what = "a copy"
    op = f", {graph.ops[graph.node_ops[index]]}" if graph.ops else ""
    return f"node {index}, {what}{op}"
