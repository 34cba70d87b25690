"""What two recordings agree on: pointers, data, padding, and the faults that are refused by name."""

from collections.abc import Callable

import pytest

from cadence_runtime.errors import TargetError
from cadence_runtime.format.cuda import Edge, MemcpyNode, MemsetNode
from cadencec.targets.cuda.nodes import RawGraph, RawKernel, RawMemcpy, RawMemset, RawNode
from cadencec.targets.cuda.relocate import FreeKernel, Place, Pointer, Recorded, relocate

FIRST, SECOND = 0x6F00_0000_0000, 0x6F40_0000_0000
SIZE = 0x1000


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def launch(params: bytes, name: str = "scale") -> RawKernel:
    size = len(params)
    return RawKernel(name, None, (1, 1, 1), (32, 1, 1), 0, (0,), (size,), params, (), ())


def recorded(base: int, *nodes: RawNode, foreign: Callable[[int], str | None] = lambda address: None) -> Recorded:
    def resolve(address: int) -> Place | None:
        return divmod(address - base, SIZE) if base <= address < base + 4 * SIZE else None

    edges = tuple(Edge(index, index + 1) for index in range(len(nodes) - 1))
    return Recorded(RawGraph(nodes, edges, tuple(range(len(nodes)))), resolve, foreign)


def describe(node: int) -> str:
    return f"aten::mul model.py:{node}"


def pair(build: Callable[[int], list[RawNode]]) -> tuple[Recorded, Recorded]:
    return recorded(FIRST, *build(FIRST)), recorded(SECOND, *build(SECOND))


def test_pointers_become_places_and_data_stays() -> None:
    graph = relocate(*pair(lambda base: [launch(words(base + SIZE + 8, 42) + b"abc")]), describe).graph
    assert graph.pointers == (Pointer(0, 0, 1, 8),)
    (node,) = graph.nodes
    assert isinstance(node, FreeKernel)
    assert node.params == words(0, 42) + b"abc"


def test_what_differs_and_resolves_to_nothing_is_padding() -> None:
    first, second = recorded(FIRST, launch(words(0x1234) + b"\1\2")), recorded(SECOND, launch(words(0x1235) + b"\1\3"))
    (node,) = relocate(first, second, describe).graph.nodes
    assert isinstance(node, FreeKernel)
    assert node.params == b"\x00\x12" + bytes(6) + b"\1\0"


def test_fills_and_copies_point_into_buffers() -> None:
    def build(base: int) -> list[RawNode]:
        return [RawMemset(base, 0, 7, 4, 64, 1), RawMemcpy(base + SIZE, base + 2 * SIZE + 4, 32, 1, 1, 0, 0, 0, 0)]

    graph = relocate(*pair(build), describe).graph
    assert graph.nodes == (MemsetNode(0, 7, 4, 64, 1), MemcpyNode(32, 1, 1, 0, 0, 0, 0))
    assert graph.pointers == (Pointer(0, 0, 0, 0), Pointer(1, 0, 1, 0), Pointer(1, 8, 2, 4))
    assert graph.edges == (Edge(0, 1),)


def test_other_kernels_the_second_time_are_refused() -> None:
    first, second = recorded(FIRST, launch(b"", "one")), recorded(SECOND, launch(b"", "other"))
    with pytest.raises(TargetError) as caught:
        relocate(first, second, describe)
    assert str(caught.value) == (
        "CAD4113: two captures of the same tape launch different kernels\n"
        "  expected: 1 nodes, node 0 being ('one', (1, 1, 1), (32, 1, 1), 0, (0,), ())\n"
        "  got:      1 nodes, node 0 being ('other', (1, 1, 1), (32, 1, 1), 0, (0,), ())\n"
        "  at:       aten::mul model.py:0\n"
        "  hint:     a library chose another algorithm: set `numerics: {cudnn_deterministic: true}`"
    )


def test_a_copy_from_foreign_memory_is_refused() -> None:
    def build(base: int) -> list[RawNode]:
        return [RawMemcpy(base, 0x7F00_0000_0000, 32, 1, 1, 0, 0, 0, 0)]

    def foreign(address: int) -> str | None:
        return "device memory of a library" if address == 0x7F00_0000_0000 else None

    ones, others = (recorded(base, *build(base), foreign=foreign) for base in (FIRST, SECOND))
    with pytest.raises(TargetError) as caught:
        relocate(ones, others, describe)
    assert str(caught.value) == foreign_pointer("device memory of a library")


def foreign_pointer(what: str) -> str:
    return (
        "CAD4114: node 0 holds a pointer that no buffer of the capture explains\n"
        "  expected: weights, constants, state, inputs, outputs or scratch\n"
        f"  got:      {what}\n"
        "  at:       aten::mul model.py:0\n"
        "  hint:     a library keeps device memory of its own for this op; report the op and the library's version"
    )


def test_what_leads_to_memory_of_another_time_is_cleared_and_told() -> None:
    left = words(FIRST + SIZE)
    common = relocate(
        recorded(FIRST, launch(words(FIRST + 8) + left)), recorded(SECOND, launch(words(SECOND + 8) + left)), describe
    )
    (node,) = common.graph.nodes
    assert isinstance(node, FreeKernel)
    assert node.params == bytes(16)
    assert common.graph.pointers == (Pointer(0, 0, 0, 8),)
    assert common.cleared == {0: words(FIRST + 8) + bytes(8)}
    assert str(common.stale) == foreign_pointer("a stale address of the recording range")


def test_padding_is_cleared_without_a_word() -> None:
    common = relocate(recorded(FIRST, launch(words(1, 2))), recorded(SECOND, launch(words(1, 3))), describe)
    assert (common.cleared, common.stale) == ({0: words(1, 0)}, None)
    same = relocate(recorded(FIRST, launch(words(1))), recorded(SECOND, launch(words(1))), describe)
    assert (same.cleared, same.stale) == ({}, None)
