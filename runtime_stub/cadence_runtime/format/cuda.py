"""The CUDA part of a plan as plain data: captured graphs, kernel images and what they need around them.

A graph's pointers are relocations: eight-byte words of a node's parameters (or a copy's or memset's address) that hold
an offset into the arena and become absolute once the arena has an address. Nothing else in a plan is an address.

    node 7  kernel 3  grid 64,1,1  block 128,1,1      params  [........][........][0000000a]
            relocations  (7, word 0, arena 0x0040200)         ^ base+0x40200  ^ base+0x81000
                         (7, word 8, arena 0x0081000)

What stands in a plan by the thousand is a named tuple: a process that loads it makes and compares them all.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cadence_runtime.frozen import frozen


@frozen
class KernelImage:
    """A cubin, by the digest of its bytes. `library` says whose it is, as far as the build could tell."""

    sha256: str
    blob: int
    library: str


@frozen
class DeviceGlobal:
    """A `__device__` or `__constant__` variable of an image whose live bytes differ from the image's own: its bytes
    are written after the image is loaded. `pointers` are (byte offset in the variable, arena offset) words that are
    relocated first."""

    image: int
    name: str
    data: bytes
    pointers: tuple[tuple[int, int], ...]


@frozen
class Kernel:
    """A function of an image by its mangled name. `param_sizes` and `param_offsets` are the driver's own, in bytes;
    `attributes` are the function attributes to set before a node is added: sorted (CUfunction_attribute, value)."""

    image: int
    name: str
    param_offsets: tuple[int, ...]
    param_sizes: tuple[int, ...]
    attributes: tuple[tuple[int, int], ...]


class KernelNode(NamedTuple):
    """A launch. `params` are all parameter bytes by the driver's offsets, with zeros where a relocation goes or where
    bytes were found to be uninitialised padding; `attributes` are sorted (CUlaunchAttributeID, 64 raw bytes)."""

    kernel: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    params: bytes
    attributes: tuple[tuple[int, bytes], ...]


class MemsetNode(NamedTuple):
    """A fill of `height` rows of `width` elements, `pitch` bytes apart; the address is relocation word 0."""

    pitch: int
    value: int
    element_bytes: int
    width: int
    height: int


class MemcpyNode(NamedTuple):
    """A device-to-device copy of a box in bytes, rows and slices; destination is relocation word 0, source word 8."""

    width: int
    height: int
    depth: int
    destination_pitch: int
    destination_height: int
    source_pitch: int
    source_height: int


GraphNode = KernelNode | MemsetNode | MemcpyNode


class Relocation(NamedTuple):
    """The eight bytes at `word` of node `node` hold the arena's address plus `offset`."""

    node: int
    word: int
    offset: int


class Edge(NamedTuple):
    """`after` runs when `before` has finished. The rest is the driver's edge data, zero for a plain edge."""

    before: int
    after: int
    from_port: int = 0
    to_port: int = 0
    kind: int = 0

    @property
    def data(self) -> tuple[int, int, int]:
        """The edge data as the driver takes it."""
        return self[2:]


@frozen
class Graph:
    """One capture as a graph: nodes in a topological order, relocations sorted by (node, word), edges sorted.
    `ops` name the tape ops that nodes came from (`aten::mm model.py:12`), and `node_ops` has an index of them for each
    node, 0 where there are none.
    `philox` is, for a graph that draws, the arena offset of the 16 bytes (seed, offset) it reads and by how much the
    offset advances at each replay; else None."""

    nodes: tuple[GraphNode, ...]
    relocations: Sequence[Relocation]
    edges: Sequence[Edge]
    ops: tuple[str, ...]
    node_ops: Sequence[int]
    philox: tuple[int, int] | None = None


@frozen
class Move:
    """A copy of `size_bytes` bytes within the arena, by offset."""

    destination: int
    source: int
    size_bytes: int


@frozen
class Launch:
    """How a capture runs: copies, then a graph, then copies. A stage that repeats over an index has one graph for all
    its indices: `before` brings an index's rows of state and its constants to where the graph has them, `after` takes
    its new rows of state back.

        att[0] att[1] att[2] ..    -- before -->    rows: att[]    -- graph -->    rows: att[]    -- after -->    att[1]
    """

    graph: int
    before: tuple[Move, ...] = ()
    after: tuple[Move, ...] = ()


@frozen
class Snapshot:
    """Bytes that graphs read before anything writes them and that are neither weight, constant nor state: tables
    behind device globals, semaphores, a workspace that starts at zero (`blob` None: zeros)."""

    name: str
    offset: int
    size_bytes: int
    blob: int | None


@frozen
class CudaPart:
    """What a CUDA plan holds beside the common parts. `launches[i]` is how `Plan.captures[i]` runs; where it is empty,
    the capture is `graphs[i]` alone. `base` is the arena
    address of the recording; a load at that address needs no relocation of descriptors a checker would notice.
    `compute_capability` as (major, minor); `driver` is the lowest driver version (cuDriverGetVersion) that is known to
    work."""

    base: int
    compute_capability: tuple[int, int]
    driver: int
    images: tuple[KernelImage, ...]
    globals: tuple[DeviceGlobal, ...]
    kernels: tuple[Kernel, ...]
    graphs: Sequence[Graph]
    snapshots: tuple[Snapshot, ...]
    launches: tuple[Launch, ...] = ()

    def launch(self, capture: int) -> Launch:
        """Return how a capture runs."""
        return self.launches[capture] if self.launches else Launch(capture)

    def graph_of(self, capture: int) -> Graph:
        """Return the graph of a capture."""
        return self.graphs[self.launch(capture).graph]
