"""The CUDA section: what goes in comes out, equal nodes stand once, and nothing but the one form is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.errors import PlanError
from cadence_runtime.format.cuda import (
    CudaPart,
    DeviceGlobal,
    Edge,
    Graph,
    Kernel,
    KernelImage,
    KernelNode,
    MemcpyNode,
    MemsetNode,
    Relocation,
    Snapshot,
)
from cadence_runtime.format.graphs import decode_graphs, encode_graphs
from cadence_runtime.format.words import pack

COUNT = st.integers(0, 1 << 40)
SMALL = st.integers(0, 3)
TRIPLE = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
LAUNCH = st.builds(
    KernelNode,
    st.just(0),
    TRIPLE,
    TRIPLE,
    COUNT,
    st.binary(max_size=40),
    st.lists(st.tuples(SMALL, st.binary(min_size=64, max_size=64)), max_size=2).map(tuple),
)
FILL = st.builds(MemsetNode, COUNT, COUNT, SMALL, COUNT, COUNT)
COPY = st.builds(MemcpyNode, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes = draw(st.lists(st.one_of(LAUNCH, FILL, COPY), max_size=4).map(tuple))
    relocations = draw(st.lists(st.builds(Relocation, COUNT, COUNT, COUNT), max_size=3).map(tuple))
    edges = draw(st.lists(st.builds(Edge, COUNT, COUNT, SMALL, SMALL, SMALL), max_size=3).map(tuple))
    ops = ("aten::mm model.py:3", "aten::add", "aten::cat", "storing the results")
    node_ops = draw(st.tuples(*[SMALL] * len(nodes)))
    return Graph(nodes, relocations, edges, ops, node_ops, draw(st.none() | st.tuples(COUNT, COUNT)))


PART = st.builds(
    CudaPart,
    COUNT,
    st.tuples(st.integers(1, 12), st.integers(0, 9)),
    st.integers(12000, 14000),
    st.just((KernelImage("ab" * 32, 0, "PyTorch"),)),
    st.lists(
        st.builds(DeviceGlobal, st.just(0), st.text(max_size=9), st.binary(max_size=20), st.just(((0, 4096),))),
        max_size=2,
    ).map(tuple),
    st.just((Kernel(0, "scale", (0, 8), (8, 4), ((8, 65536),)),)),
    st.lists(graphs(), max_size=3).map(tuple),
    st.lists(st.builds(Snapshot, st.text(max_size=9), COUNT, COUNT, st.none() | st.just(1)), max_size=2).map(tuple),
)


@given(PART)
def test_what_goes_in_comes_out(part: CudaPart) -> None:
    data = encode_graphs(part)
    assert decode_graphs(data, 2) == part
    assert encode_graphs(decode_graphs(data, 2)) == data


def test_a_plan_without_graphs_is_one_word() -> None:
    assert decode_graphs(encode_graphs(None), 0) is None


def example(graphs: int = 1) -> CudaPart:
    node = KernelNode(0, (2, 1, 1), (128, 1, 1), 0, bytes(range(24)), ((4, b"\1" * 64),))
    graph = Graph((node, node), (Relocation(0, 8, 256),), (Edge(0, 1),), ("aten::mul",), (0, 0))
    kernels = (Kernel(0, "scale", (0,), (24,), ()),)
    return CudaPart(0, (9, 0), 13000, (KernelImage("ab" * 32, 0, "PyTorch"),), (), kernels, (graph,) * graphs, ())


def test_a_second_key_costs_its_references_only() -> None:
    one, two = len(encode_graphs(example(1))), len(encode_graphs(example(2)))
    assert two - one < 200  # 24 bytes of params and 64 of attributes a node are not there again


@given(st.data())
def test_damage_is_an_error_or_another_part_in_its_own_form(data: st.DataObject) -> None:
    good = bytearray(encode_graphs(example()))
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    try:
        part = decode_graphs(bytes(good), 2)
    except PlanError:
        return
    assert encode_graphs(part) == bytes(good)


@given(st.integers(0, 100))
def test_a_section_that_is_cut_is_an_error(cut: int) -> None:
    data = encode_graphs(example())
    with pytest.raises(PlanError):
        decode_graphs(data[: min(cut, len(data) - 1)], 2)


def test_strings_out_of_order_are_refused() -> None:
    two = [pack([2, 1]), b"b" + bytes(7), pack([1]), b"a" + bytes(7)]
    head = pack([1, 0, 9, 0, 13000])
    rest = pack([0, 0, 0, 0, 0, 0])
    with pytest.raises(PlanError) as caught:
        decode_graphs(head + b"".join(two) + rest, 0)
    assert str(caught.value) == (
        "CAD5204: section `graphs` is not in its one form\n"
        "  expected: strings and nodes once each, in the order of their first use\n"
        "  got:      another order, or something twice"
    )


def test_padding_that_is_not_zero_is_refused() -> None:
    with pytest.raises(PlanError) as caught:
        decode_graphs(pack([1, 0, 9, 0, 13000, 1, 1]) + b"abcdefgh" + pack([0, 0, 0, 0, 0, 0]), 0)
    assert str(caught.value) == (
        "CAD5203: a string of section `graphs` is not padded with zeros\n  expected: zeros\n  got:      others"
    )


def test_a_name_that_is_no_text_is_refused() -> None:
    words = pack([1, 0, 9, 0, 13000, 1, 1]) + b"\xff" + bytes(7) + pack([1, 0, 0, 0, 0, 0, 0, 0, 0])
    with pytest.raises(PlanError) as caught:
        decode_graphs(words, 1)
    assert str(caught.value) == ("CAD5205: a name of section `graphs` is no text\n  expected: UTF-8\n  got:      ff")
