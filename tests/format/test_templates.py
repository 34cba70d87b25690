"""Graphs by template: the same graphs come out, a key costs its differences, and nothing but the one form is read."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from cadence_runtime.errors import PlanError
from cadence_runtime.format import templates
from cadence_runtime.format.check_graphs import graph_errors
from cadence_runtime.format.cuda import CudaPart, Graph, KernelNode, MemcpyNode, MemsetNode
from cadence_runtime.format.graphs import decode_graphs, encode_graphs
from cadence_runtime.format.plan import Plan, minor_of
from cadence_runtime.format.templates import Family, Graphs, by_template, node_counts, op_names, relocation_counts
from tests.format.plans import cuda_example, template_example
from tests.format.test_graphs import PART


def part_of(plan: Plan) -> CudaPart:
    assert plan.cuda is not None
    return plan.cuda


def graphs_of(part: CudaPart) -> Graphs:
    assert isinstance(part.graphs, Graphs)
    return part.graphs


EXAMPLE = part_of(template_example())
BLOBS = len(template_example().blobs)


@given(PART)
def test_what_goes_in_comes_out(part: CudaPart) -> None:
    stored = replace(part, graphs=by_template(part.graphs))
    data = encode_graphs(stored)
    read = decode_graphs(data, 2)
    assert read is not None
    assert tuple(graphs_of(read)) == part.graphs
    assert read == stored
    assert encode_graphs(read) == data
    assert node_counts(read.graphs) == node_counts(part.graphs) == [len(graph.nodes) for graph in part.graphs]
    assert relocation_counts(read.graphs) == relocation_counts(part.graphs)
    assert op_names(read.graphs) == op_names(part.graphs)


def test_graphs_are_a_sequence_that_equals_any_other() -> None:
    graphs = graphs_of(EXAMPLE)
    listed = tuple(graphs)
    assert graphs == listed == graphs[:]
    assert graphs[1:3] == listed[1:3]
    assert graphs != listed[1:]
    assert graphs != (*listed[1:], listed[0])
    assert hash(graphs) == hash(by_template(listed))
    assert repr(graphs) == repr(listed)


def test_a_graph_that_draws_has_a_template_of_its_own() -> None:
    graphs = graphs_of(EXAMPLE)
    assert [family.template.draws for family in graphs.families] == [False, True]
    assert list(graphs.order) == [0, *[1] * (len(graphs) - 1)]


def test_a_key_costs_the_numbers_in_which_it_differs() -> None:
    graph = graphs_of(EXAMPLE)[1]
    launch, *rest = graph.nodes
    assert isinstance(launch, KernelNode)

    def keys(count: int) -> int:
        varied = (replace(graph, nodes=(launch._replace(grid=(1 + n, 1, 1)), *rest)) for n in range(count))
        return len(encode_graphs(replace(EXAMPLE, graphs=by_template(list(varied)))))

    assert keys(101) - keys(100) == 8 + 8  # the number itself, and the template of the graph


def test_plans_of_form_3_are_of_minor_2() -> None:
    assert minor_of(template_example()) == 2
    assert minor_of(cuda_example()) == 0


def test_no_graph_is_made_to_read_and_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = template_example()
    made: list[object] = []
    one = templates.make_node

    def counted(*given: object) -> object:
        made.append(given)
        return one(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(templates, "make_node", counted)
    read = decode_graphs(encode_graphs(plan.cuda), BLOBS)
    assert made == []
    assert list(graph_errors(replace(plan, cuda=read))) == []
    families = graphs_of(part_of(plan)).families
    assert len(made) == sum(len(family.template.shapes) for family in families)  # the first graph of each


GRID = st.sampled_from([0, 1, 2, 65535, 65536, 2**31 - 1, 2**31])
BLOCK = st.sampled_from([1, 2, 4, 1024, 2048])
SIZES = st.sampled_from([0, 1, 16, 2**40])


@st.composite
def variations(draw: st.DrawFn) -> Graph:
    """A graph of the template of the example, with numbers that may be out of range."""
    graph = graphs_of(EXAMPLE)[0]
    launch, fill, copy = graph.nodes
    assert isinstance(launch, KernelNode)
    assert isinstance(fill, MemsetNode)
    assert isinstance(copy, MemcpyNode)
    launch = launch._replace(
        kernel=draw(st.sampled_from([0, 0, 0, 1])),
        grid=(draw(GRID), 1, draw(GRID)),
        block=(draw(BLOCK), 1, draw(BLOCK)),
        shared_bytes=draw(st.sampled_from([0, 1 << 20, 1 << 21])),
        attributes=((4, draw(st.sampled_from([bytes(64), b"\1" * 64]))),),
    )
    fill = fill._replace(width=draw(SIZES), height=draw(SIZES), value=draw(st.sampled_from([0, 2**32 - 1, 2**32])))
    copy = copy._replace(width=draw(SIZES), depth=draw(SIZES))
    offset = st.sampled_from([0, graph.relocations[0].offset, 2**45])
    relocations = tuple(row._replace(offset=draw(offset)) for row in graph.relocations)
    return replace(graph, nodes=(launch, fill, copy), relocations=relocations)


def wrong_nodes(graphs: Sequence[Graph]) -> set[str | None]:
    """Return which nodes of which graphs break a rule."""
    return {error.at for error in graph_errors(replace(cuda_example(), cuda=replace(EXAMPLE, graphs=graphs)))}


@given(st.lists(variations(), min_size=3, max_size=3))
def test_columns_are_judged_as_graphs_are(others: list[Graph]) -> None:
    graphs = [graphs_of(EXAMPLE)[0], *others]
    event(f"{len(wrong_nodes(tuple(graphs)))} nodes are wrong")
    assert wrong_nodes(by_template(graphs)) == wrong_nodes(tuple(graphs))


@given(st.lists(variations(), min_size=4, max_size=4))
def test_what_is_wrong_in_all_graphs_is_told_of_the_first(graphs: list[Graph]) -> None:
    found, expected = wrong_nodes(by_template(graphs)), wrong_nodes(tuple(graphs))
    assert found <= expected
    assert bool(found) == bool(expected)


# The one form.


def changed(family: int, **changes: object) -> CudaPart:
    """The example with something else in a family."""
    graphs = graphs_of(EXAMPLE)
    families = list(graphs.families)
    families[family] = replace(families[family], **changes)  # type: ignore[type-var]
    return replace(EXAMPLE, graphs=Graphs(graphs.values, tuple(families), graphs.order))


def refusals() -> Iterator[tuple[str, CudaPart, str]]:
    graphs = graphs_of(EXAMPLE)
    first, second = graphs.families
    places, rows, width = second.places, second.rows, len(second.places)
    yield "a place twice", changed(1, places=array("q", [places[0], *places[:-1]])), "places in ascending order"
    yield "a place behind the end", changed(1, places=array("q", [*places[:-1], len(second.first)])), "a place from 0"
    yield "a place without other graphs", changed(0, places=array("q", [1])), "no places without other graphs"
    equal = array("q", rows)
    equal[::width] = array("q", [second.first[places[0]]]) * second.others
    yield "a place where all are equal", changed(1, rows=equal), "places at which some graph differs from the first"
    negative = array("q", rows)
    negative[0] = -1
    yield "a negative number", changed(1, rows=negative), "a number of a graph from 0"
    padded = array("q", first.first)
    padded[first.template.kinds().index(templates.LAST_WORD + 4)] = 1 << 32
    yield "padding", changed(0, first=padded), "a number of a graph from 0 to 4294967295"
    value = array("q", first.first)
    value[first.template.kinds().index(templates.VALUE)] = 1
    yield "a value that is not there", changed(0, first=value), "a number of a graph from 0 to 0"
    lone = Graphs(graphs.values, graphs.families, [0, 1])
    yield "a row without a graph", replace(EXAMPLE, graphs=lone), f"{second.count} graphs of template 1"
    twice = Graphs(graphs.values * 2, graphs.families, graphs.order)
    yield "a value twice", replace(EXAMPLE, graphs=twice), "once each, in the order of their first use"
    swapped = Graphs(graphs.values, graphs.families, [1] * second.others + [0, 1])
    yield "templates out of order", replace(EXAMPLE, graphs=swapped), "once each, in the order of their first use"
    again = Graphs(graphs.values, (*graphs.families, first), [*graphs.order, 2])
    yield "a template twice", replace(EXAMPLE, graphs=again), "once each, in the order of their first use"


REFUSALS = {what: (part, expected) for what, part, expected in refusals()}


@pytest.mark.parametrize("what", REFUSALS)
def test_another_form_is_refused(what: str) -> None:
    part, expected = REFUSALS[what]
    with pytest.raises(PlanError) as caught:
        decode_graphs(encode_graphs(part), BLOBS)
    assert caught.value.code in ("CAD5202", "CAD5204")
    assert str(caught.value.expected).startswith(expected) or str(caught.value.expected).endswith(expected)


def test_parameters_may_have_any_bits() -> None:
    family = graphs_of(EXAMPLE).families[0]
    words = array("q", family.first)
    words[family.template.kinds().index(templates.WORD)] = -(2**63)
    read = decode_graphs(encode_graphs(changed(0, first=words)), BLOBS)
    assert read is not None
    launch = read.graphs[0].nodes[0]
    assert isinstance(launch, KernelNode)
    assert launch.params[:8] == bytes(7) + b"\x80"


def test_a_graph_without_anything_has_no_numbers() -> None:
    empty = Graph((), (), (), (), ())
    graphs = by_template([empty, empty])
    assert graphs.families == (Family(graphs.families[0].template, array("q"), array("q"), array("q"), 1),)
    assert tuple(graphs) == (empty, empty)


@given(st.data())
def test_damage_is_an_error_or_another_part_in_its_own_form(data: st.DataObject) -> None:
    good = bytearray(encode_graphs(EXAMPLE))
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    try:
        part = decode_graphs(bytes(good), BLOBS)
    except PlanError:
        return
    assert encode_graphs(part) == bytes(good)


@given(st.integers(0, 2000))
def test_a_section_that_is_cut_is_an_error(cut: int) -> None:
    data = encode_graphs(EXAMPLE)
    with pytest.raises(PlanError):
        decode_graphs(data[: min(cut, len(data) - 1)], BLOBS)
