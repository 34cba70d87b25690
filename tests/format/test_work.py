"""What a reader does for a hostile plan is bounded by the length of the plan, counted in steps and not in seconds."""

import itertools
import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.errors import PlanError
from cadence_runtime.format import check_tape, closure
from cadence_runtime.format.check_graphs import graph_errors
from cadence_runtime.format.choices import choices_number
from cadence_runtime.format.closure import check_closure
from cadence_runtime.format.cubin import Cubin, CubinError, read_cubin
from cadence_runtime.format.cuda import GraphNode, KernelNode, MemcpyNode, MemsetNode
from cadence_runtime.format.graphs import decode_graphs, encode_graphs
from cadence_runtime.format.happening import Budget, TooMuchWorkError, push
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.tape import View
from cadence_runtime.format.tapes import decode_tapes, encode_tapes
from cadence_runtime.host.expression import parse
from cadence_runtime.host.program import Choice, Event
from tests.format.cubins import cubin
from tests.format.plans import cuda_example, example

PLAN = example(steps=1)
HASH_PERIOD = 2**61 - 1
"""Python's hash of an int is its remainder by this."""


def colliding_views(count: int) -> list[View]:
    """Return views whose sizes, strides and offsets have equal hashes."""
    strides = itertools.product([number * HASH_PERIOD for number in range(4)], repeat=6)
    return [View(0, "float32", (1,) * 6, each, 0) for each in itertools.islice(strides, count)]


def test_views_of_equal_numbers_by_hash_are_compared_a_few_times_each(monkeypatch: pytest.MonkeyPatch) -> None:
    views = colliding_views(1000)
    assert len({hash((view.sizes, view.strides, view.offset)) for view in views}) == 1
    tape = PLAN.tapes[1]
    op = replace(tape.ops[0], args=(*tape.ops[0].args, tuple(views)))
    compared = 0
    equal = View.__eq__

    def counted(self: View, other: object) -> bool:
        nonlocal compared
        compared += 1
        return equal(self, other)

    monkeypatch.setattr(View, "__eq__", counted)
    data = encode_tapes([replace(tape, ops=(op, *tape.ops[1:]))])
    decode_tapes(data)
    assert compared < 4 * len(views)


@pytest.mark.parametrize("kind", [KernelNode, MemsetNode, MemcpyNode])
def test_no_node_of_a_graph_is_hashed(kind: type[GraphNode], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = cuda_example()
    data = encode_graphs(plan.cuda)

    def hashed(self: GraphNode) -> int:
        raise AssertionError("a plan can make the hashes of its numbers equal")

    monkeypatch.setattr(kind, "__hash__", hashed)
    part = decode_graphs(data, len(plan.blobs))
    assert part == plan.cuda
    assert list(graph_errors(replace(plan, cuda=part))) == []


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 3)), max_size=4))
def test_choices_are_numbered_from_0_in_their_order(ranges: list[tuple[int, int]]) -> None:
    choices = tuple(Choice(f"c{index}", lower, lower + count) for index, (lower, count) in enumerate(ranges))
    event = Event("push", choices=choices)
    offered = itertools.product(*(range(choice.lower, choice.upper) for choice in choices))
    numbers = [choices_number(event, each) for each in offered]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("values", [(-1,), (2,), (HASH_PERIOD,), (HASH_PERIOD + 1,), (), (0, 0)])
def test_what_is_not_offered_has_no_number(values: tuple[int, ...]) -> None:
    assert choices_number(Event("push", choices=(Choice("n", 0, 2),)), values) is None


def test_to_ask_a_guard_costs_its_letters() -> None:
    never = Event("never", when=parse("1 == 2 and 3 == 4"))
    program = replace(PLAN.program, events=(*PLAN.program.events, never))
    budget = Budget(program, 1000)
    pushes = 0
    with pytest.raises(TooMuchWorkError):
        while pushes < 1000:
            assert push(program, PLAN.nodes[0], never, (), budget) is None
            pushes += 1
    assert 1000 / 40 < pushes < 1000 / 10


def spent(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the work of a closure check."""
    total = 0
    spend = Budget.spend

    def counted(self: Budget, units: int) -> None:
        nonlocal total
        total += units
        spend(self, units)

    with monkeypatch.context() as patch:
        patch.setattr(Budget, "spend", counted)
        list(closure.closure_errors(plan))
    return total


def test_every_row_costs_all_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    leaf, form = PLAN.leaves[-1], PLAN.nodes[0].forms[-1]
    more = tuple(replace(leaf, path=f"more.{index}") for index in range(500))
    nodes = tuple(replace(node, forms=(*node.forms, *[form] * len(more))) for node in PLAN.nodes)
    wide = replace(PLAN, leaves=(*PLAN.leaves, *more), nodes=nodes)
    assert spent(wide, monkeypatch) >= spent(PLAN, monkeypatch) + len(more) * len(PLAN.transitions)


def test_a_plan_that_is_too_much_work_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_closure(PLAN)
    monkeypatch.setattr(closure, "MAX_WORK", spent(PLAN, monkeypatch) - 1)
    with pytest.raises(PlanError, match="CAD5309"):
        check_closure(PLAN)


def test_a_kernel_that_is_named_often_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    image = read_cubin(cubin({"add": ((0, 8), (8, 4))}))
    read = []
    records = Cubin._records

    def counted(self: Cubin, section: str, wanted: int, size_bytes: int) -> Iterator[bytes]:
        read.append(section)
        return records(self, section, wanted, size_bytes)

    monkeypatch.setattr(Cubin, "_records", counted)
    assert {image.parameters("add") for _ in range(100)} == {((0, 8), (8, 4))}
    assert read == [".nv.info.add"]


def test_frames_are_told_as_far_as_their_names_are_no_longer_than_the_image() -> None:
    name, others = "k" * 4000, [f"other{index}" for index in range(10)]
    data = cubin({name: ()}, local={name: 64, **dict.fromkeys(others, 32), "last": 16})
    assert [read_cubin(data).local_bytes(each) for each in (name, "other9", "last", "none")] == [64, 32, 16, 0]
    symbol = struct.Struct("<IBBHQQ")
    for index in range(len(others)):  # all of them are called like the first
        own = symbol.pack(len(name) + 2 + 7 * index, 0x12, 0, 0, 0, 0)
        assert own in data
        data = data.replace(own, symbol.pack(1, 0x12, 0, 0, 0, 0))
    assert [read_cubin(data).local_bytes(each) for each in (name, "last")] == [64, 0]


def test_a_section_name_without_an_end_is_no_overlap() -> None:
    data = cubin({"add": ()})
    with pytest.raises(CubinError, match="does not end"):
        read_cubin(data.replace(b".nv.info.add\0", b".nv.info.addd"))


def test_a_long_text_that_many_ops_name_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = PLAN.tapes[1]
    name = "aten::" + "a" * 10_000
    pattern = CountedPattern()
    monkeypatch.setattr(check_tape, "OP_NAME", pattern)
    ops = tuple(replace(tape.ops[0], name=name, source=f"model.py:{line}") for line in range(100))
    list(check_tape.TapeChecker().errors(0, replace(tape, ops=ops)))
    assert pattern.read == [name]


class CountedPattern:
    """A pattern that keeps what it was asked of."""

    pattern = "counted"

    def __init__(self) -> None:
        self.read: list[str] = []

    def fullmatch(self, text: str) -> bool:
        self.read.append(text)
        return True
