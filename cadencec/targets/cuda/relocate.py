"""From two recordings of one capture to a graph without addresses.

The same tape is captured twice, every buffer standing elsewhere the second time. An eight-byte word of a node is a
pointer if, and only if, both captures resolve it to the same place of the same buffer. A word that is equal in both is
data. What differs and resolves to nothing is padding that nobody wrote, and what is equal and leads to memory that was
given back is what an earlier launch left there: both are stored as zeros, and a replay on those zeros has to prove it.

    first    ...[6f00 0020 1000]...   = scratch 3 + 0x1000
    second   ...[6f00 8820 1000]...   = scratch 3 + 0x1000     ->  relocation (scratch 3, 0x1000)
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cadence_runtime.errors import TargetError
from cadence_runtime.format.cuda import Edge, MemcpyNode, MemsetNode
from cadencec.targets.cuda.nodes import RawGraph, RawKernel, RawMemcpy, RawMemset, RawNode

Place = tuple[int, int]
"""A buffer's number and an offset in bytes within it."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A captured graph and what its addresses mean. `resolve` returns the place an address lies in, or None; buffers
    of the two recordings carry the same numbers. `foreign` names device memory that no buffer explains, or None for a
    word that is no device pointer."""

    graph: RawGraph
    resolve: Callable[[int], Place | None]
    foreign: Callable[[int], str | None]


@dataclass(frozen=True, slots=True)
class Pointer:
    """The eight bytes at `word` of node `node` point `offset` bytes into buffer `buffer`."""

    node: int
    word: int
    buffer: int
    offset: int


@dataclass(frozen=True, slots=True)
class FreeKernel:
    """A launch without addresses: `params` hold zeros where a pointer or padding was."""

    raw: RawKernel
    params: bytes


FreeNode = FreeKernel | MemsetNode | MemcpyNode


@dataclass(frozen=True, slots=True)
class FreeGraph:
    """A graph without addresses; pointers are sorted by (node, word)."""

    nodes: tuple[FreeNode, ...]
    pointers: tuple[Pointer, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Relocated:
    """The common graph of two recordings. `cleared` are the parameters that were captured with other bytes than are
    stored: by node, what they become in the first capture. `stale` says of the first word that led to memory which was
    given back."""

    graph: FreeGraph
    cleared: Mapping[int, bytes]
    stale: TargetError | None


def relocate(first: Recorded, second: Recorded, describe: Callable[[int], str]) -> Relocated:
    """Compare two recordings. `describe(node)` names the op of a node, for errors."""
    _require_same_shape(first.graph, second.graph, describe)
    pair = _Pair(first, second, describe)
    nodes = tuple(
        pair.free(index, one, other)
        for index, (one, other) in enumerate(zip(first.graph.nodes, second.graph.nodes, strict=True))
    )
    return Relocated(FreeGraph(nodes, tuple(pair.pointers), first.graph.edges), pair.cleared, pair.stale)


class _Pair:
    """Two recordings being compared, and the pointers found so far."""

    def __init__(self, first: Recorded, second: Recorded, describe: Callable[[int], str]) -> None:
        self.first, self.second, self.describe = first, second, describe
        self.pointers: list[Pointer] = []
        self.cleared: dict[int, bytes] = {}
        self.stale: TargetError | None = None

    def free(self, index: int, one: RawNode, other: RawNode) -> FreeNode:
        """Return node `index` without addresses; its pointers are appended to `pointers`."""
        if isinstance(one, RawKernel) and isinstance(other, RawKernel):
            return self._free_kernel(index, one, other)
        for place, addresses in enumerate(zip(_addresses(one), _addresses(other), strict=True)):
            self._certain(index, 8 * place, *addresses)
        if isinstance(one, RawMemset):
            return MemsetNode(one.pitch, one.value, one.element_bytes, one.width, one.height)
        assert isinstance(one, RawMemcpy)  # noqa: S101 - the only kind left; narrows the type
        box = (one.width, one.height, one.depth)
        pitches = (one.destination_pitch, one.destination_height, one.source_pitch, one.source_height)
        return MemcpyNode(*box, *pitches)

    def _certain(self, index: int, word: int, address: int, moved: int) -> None:
        """Note the pointer of a word that must be one."""
        place = self.first.resolve(address)
        if place is None or place != self.second.resolve(moved):
            raise self._unexplained(index, address)
        self.pointers.append(Pointer(index, word, *place))

    def _free_kernel(self, index: int, one: RawKernel, other: RawKernel) -> FreeKernel:
        params, start = bytearray(len(one.params)), len(self.pointers)
        for offset, size in zip(one.param_offsets, one.param_sizes, strict=True):
            whole = size - size % 8
            for at in range(offset, offset + whole, 8):
                params[at : at + 8] = self._free_word(index, at, one.params[at : at + 8], other.params[at : at + 8])
            rest = slice(offset + whole, offset + size)
            params[rest] = _common(one.params[rest], other.params[rest])
        kept = _with_pointers(params, one.params, self.pointers[start:])
        if kept != one.params:
            self.cleared[index] = kept
        return FreeKernel(one, bytes(params))

    def _free_word(self, index: int, at: int, here: bytes, there: bytes) -> bytes:
        """Return the bytes to store for a parameter word: zeros for a pointer, which is noted."""
        address = int.from_bytes(here, "little")
        place = self.first.resolve(address)
        if place is not None and place == self.second.resolve(int.from_bytes(there, "little")):
            self.pointers.append(Pointer(index, at, *place))
            return bytes(8)
        if here == there and (place is not None or self.first.foreign(address) is not None):
            self.stale = self.stale or self._unexplained(index, address)
            return bytes(8)
        return _common(here, there)

    def _unexplained(self, index: int, address: int) -> TargetError:
        return TargetError(
            "CAD4114",
            f"node {index} holds a pointer that no buffer of the capture explains",
            expected="weights, constants, state, inputs, outputs or scratch",
            got=f"{self.first.foreign(address) or 'a stale address of the recording range'}",
            at=self.describe(index),
            hint="a library keeps device memory of its own for this op; report the op and the library's version",
        )


def _with_pointers(stored: bytes | bytearray, captured: bytes, pointers: Iterable[Pointer]) -> bytes:
    """Return the parameters of a launch as they are stored, with its pointers as they were captured."""
    params = bytearray(stored)
    for pointer in pointers:
        word = slice(pointer.word, pointer.word + 8)
        params[word] = captured[word]
    return bytes(params)


def _common(here: bytes, there: bytes) -> bytes:
    """Return the bytes on which both recordings agree, and zeros where they do not: padding that nobody wrote."""
    return bytes(a if a == b else 0 for a, b in zip(here, there, strict=True))


def _addresses(node: RawNode) -> tuple[int, ...]:
    if isinstance(node, RawMemset):
        return (node.address,)
    return (node.destination, node.source) if isinstance(node, RawMemcpy) else ()


def _require_same_shape(first: RawGraph, second: RawGraph, describe: Callable[[int], str]) -> None:
    ones, others = [_shape(node) for node in first.nodes], [_shape(node) for node in second.nodes]
    if ones == others and first.edges == second.edges:
        return
    differing = (index for index, pair in enumerate(zip(ones, others, strict=False)) if pair[0] != pair[1])
    at = next(differing, min(len(ones), len(others)))
    raise TargetError(
        "CAD4113",
        "two captures of the same tape launch different kernels",
        expected=f"{len(ones)} nodes, node {at} being {ones[at] if at < len(ones) else 'absent'}",
        got=f"{len(others)} nodes, node {at} being {others[at] if at < len(others) else 'absent'}",
        at=describe(at),
        hint="a library chose another algorithm: set `numerics: {cudnn_deterministic: true}`",
    )


def _shape(node: RawNode) -> object:
    """Return all of a node that may not change from one capture to the next."""
    if isinstance(node, RawKernel):
        return (node.name, node.grid, node.block, node.shared_bytes, node.param_sizes, node.attributes)
    if isinstance(node, RawMemset):
        return ("memset", node.pitch, node.value, node.element_bytes, node.width, node.height)
    return ("memcpy", node.width, node.height, node.depth, node.destination_pitch, node.source_pitch)
