"""Lanes of a CUDA plan: what they share, what each has for itself, and that they are closed in any order."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cadence_runtime import LoadedPlan
from cadence_runtime.check import open_plan
from cadence_runtime.cuda.compatibility import arena_bytes, executable_bytes, lent_bytes
from cadence_runtime.cuda.player import CudaPlayer
from cadence_runtime.cuda.resident import reside
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import CudaPart, KernelNode
from cadence_runtime.format.plan import Plan, Section
from cadence_runtime.live import Executor
from tests.cuda import test_resident as small
from tests.cuda.fake_driver import FakeDriver
from tests.cuda.timelines import nodes

PATH = Path(__file__).parents[2] / "plans" / "euler.cuda-sm90.format-1.1.2026-12-01.plan"
MEL = np.zeros((1, 3, 16), np.float32)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return open_plan(PATH)


def part_of(plan: Plan) -> CudaPart:
    assert plan.cuda is not None
    return plan.cuda


@pytest.fixture
def driver(plan: Plan) -> FakeDriver:
    kernels = part_of(plan).kernels
    return FakeDriver(layouts={k.name: tuple(zip(k.param_offsets, k.param_sizes, strict=True)) for k in kernels})


def loaded(plan: Plan, driver: FakeDriver, **options: Any) -> LoadedPlan:
    driver.open(0)
    return LoadedPlan(plan, CudaPlayer(plan, driver, lambda name: iter(()), **options))


def talk(lane: LoadedPlan) -> None:
    with lane.session() as session:
        for _ in range(3):
            session.push("chunk", mel=MEL)
        session.push("turn")


def own_address(plan: Plan, driver: FakeDriver) -> int:
    """Return what offsets of the newest lane's own sections are relative to."""
    return next(reversed(driver.memory_at)) - lent_bytes(plan)


def test_a_lane_takes_its_own_sections_and_shares_weights_and_constants(plan: Plan, driver: FakeDriver) -> None:
    with loaded(plan, driver, warm=True) as one:
        before = len(driver.calls)
        with one.lane():
            names = [call[0] for call in driver.calls[before:]]
            assert driver.calls[before + 1][:2] == ("new_stream",)
            assert ("reserve", arena_bytes(plan) - lent_bytes(plan), 0) in driver.calls[before:]
            assert not {"load_library", "function", "set_attribute"} & set(names)
            assert names.count("instantiate") == len(part_of(plan).graphs)
    assert driver.live == []


def test_each_word_and_each_move_leads_where_the_lane_has_it(plan: Plan, driver: FakeDriver) -> None:
    part, lent = part_of(plan), lent_bytes(plan)
    with loaded(plan, driver) as one, one.lane() as lane:
        own = own_address(plan, driver)

        def address(offset: int) -> int:
            return offset + (part.base if offset < lent else own)

        talk(lane)
        graphs = [part.graph_of(number) for number in dict.fromkeys((0, 1, 2, 6, 8, 12, 7))]
        expected = []
        for graph in graphs:
            params = [bytearray(node.params) if isinstance(node, KernelNode) else bytearray() for node in graph.nodes]
            for entry in graph.relocations:
                if isinstance(graph.nodes[entry.node], KernelNode):
                    params[entry.node][entry.word : entry.word + 8] = address(entry.offset).to_bytes(8, "little")
            for node, raw in zip(graph.nodes, params, strict=True):
                if isinstance(node, KernelNode):
                    kernel = part.kernels[node.kernel]
                    spans = zip(kernel.param_offsets, kernel.param_sizes, strict=True)
                    expected.append(tuple(bytes(raw[at : at + size]) for at, size in spans))
        assert sorted(driver.param_bytes) == sorted(expected)
        copies = {call[1:] for call in driver.calls if call[0] == "copy"}
        moves = [move for number in (2, 3) for move in (*part.launch(number).before, *part.launch(number).after)]
        assert moves and {(address(m.destination), address(m.source), m.size_bytes) for m in moves} <= copies
        assert any(move.source < lent for move in moves)


def test_lanes_launch_their_own_executables_on_their_own_streams(plan: Plan, driver: FakeDriver) -> None:
    with loaded(plan, driver) as one, one.lane() as lane:
        threads = [threading.Thread(target=talk, args=[each]) for each in (one, lane)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        streams: dict[str, set[str]] = {}
        for executable, stream in driver.launched:
            streams.setdefault(stream, set()).add(executable)
        first, second = streams.values()
        assert len(first) == len(second) == len(part_of(plan).graphs)
        assert not first & second


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_lanes_are_closed_in_any_order(plan: Plan, driver: FakeDriver, order: tuple[int, ...]) -> None:
    first = loaded(plan, driver)
    lanes = [first, first.lane()]
    lanes.append(lanes[1].lane())
    for closed, number in enumerate(order):
        for other in order[closed:]:
            talk(lanes[other])
        assert ("close",) not in driver.calls
        lanes[number].close()
    assert driver.calls[-1] == ("close",)
    assert driver.live == []


def test_a_budget_is_each_lanes_own(plan: Plan, driver: FakeDriver) -> None:
    with loaded(plan, driver, budget_bytes=nodes(33)) as one, one.lane() as lane:
        assert sum(thread.name == "cadence-builder" for thread in threading.enumerate()) == 2
        talk(one)
        talk(lane)
        assert lane.residency()["resident_bytes"] <= nodes(33)
    assert driver.live == []


@pytest.mark.parametrize("call", ["reserve", "new_stream", "instantiate"])
def test_a_lane_that_fails_gives_back_what_it_took_and_no_more(plan: Plan, driver: FakeDriver, call: str) -> None:
    with loaded(plan, driver, warm=True) as one:
        live = list(driver.live)
        driver.fail = (call, 1)
        with pytest.raises(DeviceError, match="CAD8001"):
            one.lane()
        driver.fail = None
        assert driver.live == live
        talk(one)
    assert driver.live == []


def test_a_lane_that_does_not_fit_is_refused_with_the_figures(plan: Plan, driver: FakeDriver) -> None:
    every, own = executable_bytes(part_of(plan)), arena_bytes(plan) - lent_bytes(plan)
    with loaded(plan, driver) as one:
        driver.free_bytes = 2 * every + own - 1  # the executables of the first lane are to come
        with pytest.raises(DeviceError) as caught:
            one.lane()
        driver.free_bytes += 1
        one.lane().close()
    assert str(caught.value) == (
        "CAD8006: the device has no room for one more lane\n"
        f"  expected: {own + every} bytes: {own} of arena and {every} of executables\n"
        f"  got:      {own + every - 1} bytes free, besides what the lanes that there are may still take\n"
        "  hint:     open more sessions on the lanes that there are, or give `load` a budget"
    )


def test_library_memory_is_a_lanes_own_and_starts_as_the_plan_says() -> None:
    device = small.driver()
    one = reside(device, small.plan(), small.PART, small.weights)
    device.memory_at[small.BASE][0x400:0x600] = b"\7" * 0x200
    two = one.lane()
    held = device.memory_at[two.base + 0x400]  # the lane's own memory begins with its section of libraries
    assert held[:0x10] == b"table of 16 byte"
    assert held[0x100:0x110] == bytes(16)
    assert device.memory_at[0x9000][8:] == (one.base + 0x400).to_bytes(8, "little")
    assert (two.close(), one.close()) == (False, True)
    assert device.live == []


def test_read_only_sections_that_do_not_come_first_are_copied() -> None:
    device, moved = small.driver(), small.plan()
    moved.sections = (Section("state", 0, 256, 256, ""), Section("weights", 256, 256, 256, ""), *moved.sections[1:])
    one = reside(device, moved, small.PART, small.weights)
    two = one.lane()
    assert ("copy", two.base + 256, one.base + 256, 256) in device.calls
    assert device.memory_at[two.base][256:264] == b"wwwwWWWW"
    two.close()
    one.close()
    assert device.live == []


def test_a_plan_whose_device_variables_lead_to_memory_that_kernels_write_has_one_lane() -> None:
    (variable,) = small.PART.globals
    part = replace(small.PART, globals=(replace(variable, pointers=((8, 0x508),)),))
    one = reside(small.driver(), small.plan(), part, small.weights)
    with pytest.raises(DeviceError) as caught:
        one.lane()
    assert str(caught.value) == (
        "CAD8006: the plan has one lane\n"
        "  expected: device variables that lead to tables alone\n"
        "  got:      `lut`, which leads to memory that kernels write\n"
        "  hint:     open more sessions on the lane that there is"
    )


@pytest.fixture
def executor(plan: Plan, driver: FakeDriver) -> Iterator[Executor]:
    yield Executor(loaded(plan, driver), lanes=2)


def test_an_executor_over_lanes_tells_what_they_take_together(
    executor: Executor, plan: Plan, driver: FakeDriver
) -> None:
    async def go() -> None:
        async with executor:
            executor.rehearse()
            opened = [await executor.session() for _ in range(4)]
            for session in opened:
                await session.push("chunk", mel=MEL)
            found, sizes = executor.bytes(), {section.name: section.size_bytes for section in plan.sections}
            assert {name: found[name] for name in ("weights", "constants")} == {
                name: sizes[name] for name in ("weights", "constants")
            }
            own = ("state", "io", "scratch", "rows", "library")
            assert {name: found[name] for name in own} == {name: 2 * sizes[name] for name in own}
            assert found["executables"] == 2 * executable_bytes(part_of(plan))
            assert found["slabs"] == 4 * sizes["state"]

    asyncio.run(go())
    assert driver.live == []


def test_lanes_that_do_not_fit_leave_none_behind(plan: Plan, driver: FakeDriver) -> None:
    with loaded(plan, driver) as one:
        live = list(driver.live)
        driver.fail = ("reserve", 3)
        with pytest.raises(DeviceError, match="CAD8001"):
            Executor(one, lanes=3)
        assert driver.live == live


def test_capacity_leaves_room_for_lanes_that_are_to_come(plan: Plan, driver: FakeDriver) -> None:
    every, own = executable_bytes(part_of(plan)), arena_bytes(plan) - lent_bytes(plan)
    with loaded(plan, driver) as one:
        found = one.capacity(lanes=3)
        assert (found.free_bytes, found.lanes_bytes) == (driver.free_bytes - every, 2 * (own + every))
        assert f"less {2 * (own + every)} for more lanes" in found.figures()
        with one.lane():
            again = one.capacity(lanes=3)
            assert (again.free_bytes, again.lanes_bytes) == (driver.free_bytes - 2 * every, own + every)
        assert one.capacity().lanes_bytes == 0
