"""Sessions of a CUDA plan within a budget of executables: the exact calls, whose thread makes them, and what fails."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cadence_runtime import LoadedPlan, measure
from cadence_runtime.check import open_plan
from cadence_runtime.cuda.player import CudaPlayer
from cadence_runtime.errors import DeviceError, UsageError
from cadence_runtime.format.plan import Plan
from cadence_runtime.live import Executor
from cadence_serve.metrics import Metrics
from tests.cuda.fake_driver import FakeDriver
from tests.cuda.timelines import nodes

PATH = Path(__file__).parents[2] / "plans" / "euler.cuda-sm90.format-1.1.2026-12-01.plan"
MEL = np.zeros((1, 3, 16), np.float32)
SIZES = [8, 4, 19, 2, 8, 19, 19]
"""Nodes of its graphs. The opening runs graph 0; `chunk` runs 1, 2, 3, then 1, 5, 3, then 1, 6, 3; `turn` runs 4."""
AHEAD, PUSH = nodes(33), nodes(25)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return open_plan(PATH)


def fake(plan: Plan, **options: Any) -> FakeDriver:
    assert plan.cuda is not None
    layouts = {k.name: tuple(zip(k.param_offsets, k.param_sizes, strict=True)) for k in plan.cuda.kernels}
    return FakeDriver(layouts=layouts, **options)


def loaded(plan: Plan, driver: FakeDriver, **options: Any) -> LoadedPlan:
    driver.open(0)
    return LoadedPlan(plan, CudaPlayer(plan, driver, lambda name: iter(()), **options))


def work(driver: FakeDriver, since: int = 0) -> list[str]:
    """Return what was done to executables, `build 19` is one of so many nodes; neighbours as one with their count."""
    names = {"prepare", "launch", "destroy", "synchronize"}
    found = []
    for call in driver.calls[since:]:
        if call[0] == "instantiate":
            found.append(f"build {call[1]}")
        elif call[0] in names:
            found.append(call[0])
    groups = ((name, len(list(group))) for name, group in groupby(found))
    return [name if count == 1 else f"{name} x{count}" for name, count in groups]


def builders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "cadence-builder"]


BUILT = ["prepare", "synchronize"]
"""What the builder does with an executable that it has built."""


def test_what_a_push_runs_next_is_built_ahead_and_on_the_builders_thread(plan: Plan) -> None:
    driver = fake(plan)
    with loaded(plan, driver, budget_bytes=AHEAD) as one:
        one.settle()
        assert work(driver)[-12:] == ["build 8", *BUILT, "build 4", *BUILT, "build 19", *BUILT, "build 2", *BUILT]
        with one.session() as session:
            one.settle()
            assert work(driver)[-6:] == ["launch", "synchronize", "destroy", "build 8", *BUILT]
            for builds in (["synchronize", "destroy", "build 19", *BUILT],) * 2 + ([],):
                since = len(driver.calls)
                session.push("chunk", mel=MEL)
                one.settle()
                assert work(driver, since) == ["launch x6", *builds]
            since = len(driver.calls)
            session.push("turn")
            one.settle()
            assert work(driver, since) == ["launch", "synchronize", "destroy", "build 19", *BUILT]
        figures = one.residency()
        assert (figures["misses"], figures["waits"], figures["resident_bytes"]) == (0, 0, AHEAD)
    calls = zip(driver.calls, driver.threads, strict=True)
    by = {thread for call, thread in calls if call[0] in ("instantiate", "prepare")}
    assert by == {"cadence-builder"}
    assert driver.live == []


@pytest.mark.parametrize("budget", [None, nodes(sum(SIZES)), nodes(sum(SIZES)) + 1])
def test_where_everything_fits_there_is_no_thread_and_the_calls_are_those_without_a_budget(
    plan: Plan, budget: int | None
) -> None:
    driver, plainly = fake(plan), fake(plan)
    for each, options in ((driver, {"budget_bytes": budget}), (plainly, {})):
        with loaded(plan, each, **options) as one, one.session() as session:
            start = len(each.calls)
            assert builders() == []
            assert one.residency() == {}
            for _ in range(2):
                session.push("chunk", mel=MEL)
            one.settle()
    first = ["build 4", "prepare", "launch", "build 19", "prepare", "launch x4", "build 2", "prepare", "launch x2"]
    assert work(driver, start) == [*first, "build 19", "prepare", "launch x5", "synchronize", "destroy x5"]
    assert work(driver) == work(plainly)


def test_a_budget_that_does_not_hold_a_push_is_refused_before_anything_is_taken(plan: Plan) -> None:
    driver = fake(plan)
    with pytest.raises(UsageError) as caught:
        loaded(plan, driver, budget_bytes=PUSH - 1)
    assert str(caught.value) == (
        "CAD9704: the budget does not hold the executables that one push runs\n"
        f"  expected: at least {PUSH} bytes, for `chunk`\n"
        f"  got:      {PUSH - 1} bytes\n"
        f"  hint:     with {AHEAD} bytes, all that a session can run next is built ahead"
    )
    assert [call[0] for call in driver.calls] == ["open"]


def test_the_smallest_budget_waits_and_gives_the_same_calls_of_the_device(plan: Plan) -> None:
    tight, wide = fake(plan), fake(plan)
    for driver, options in ((tight, {"budget_bytes": PUSH}), (wide, {})):
        with loaded(plan, driver, **options) as one, one.session() as session:
            for _ in range(3):
                session.push("chunk", mel=MEL)
                session.push("turn")
            if driver is tight:
                assert one.residency()["waits"] > 0
    launches = [[call[0] for call in driver.calls if call[0] in ("launch", "copy")] for driver in (tight, wide)]
    assert launches[0] == launches[1]
    assert tight.live == wide.live == []


def test_warming_fills_the_budget_before_the_load_is_over(plan: Plan) -> None:
    driver = fake(plan)
    with loaded(plan, driver, budget_bytes=nodes(60), warm=True) as one:
        assert one.residency()["built"] == 6
        assert one.residency()["resident_bytes"] == nodes(60)
        with one.session() as session:
            session.push("chunk", mel=MEL)
        assert one.residency()["misses"] == 0


def test_the_device_is_done_with_an_executable_before_it_goes(plan: Plan) -> None:
    driver = fake(plan)
    with loaded(plan, driver, budget_bytes=PUSH) as one, one.session() as session:
        for _ in range(4):
            session.push("chunk", mel=MEL, borrow=True)
            session.push("turn")
    running: set[str] = set()
    for name, *arguments in driver.calls:
        if name == "launch":
            running.add(arguments[0])
        elif name == "synchronize":
            running.clear()
        assert name != "destroy" or arguments[0] not in running


def test_a_builder_that_fails_is_told_by_the_next_push_and_the_session_goes_on(plan: Plan) -> None:
    driver = fake(plan)
    with loaded(plan, driver, budget_bytes=AHEAD) as one, one.session() as session:
        session.push("chunk", mel=MEL)
        one.settle()
        since = len(driver.calls)
        driver.fail = ("add_kernel", 1)
        session.push("chunk", mel=MEL)
        with pytest.raises(DeviceError) as caught:
            session.push("chunk", mel=MEL)
        assert str(caught.value).startswith(
            "CAD8001: the CUDA driver refused `add_kernel`\n"
            "  expected: CUDA_SUCCESS\n"
            "  got:      CUDA_ERROR_FAKE\n"
            "  at:       capture 12 of stage `refine`, node 0, kernel"
        )
        assert "launch" in [call[0] for call in driver.calls[since:]]
        launches = [call[0] for call in driver.calls].count("launch")
        driver.fail = None
        with suppress(DeviceError):  # it may have begun once more before the driver worked again
            one.settle()
        session.push("chunk", mel=MEL)
        assert [call[0] for call in driver.calls].count("launch") == launches + 6
    assert driver.live == []


def test_a_kernel_that_failed_is_named_when_the_builder_hears_of_it(plan: Plan) -> None:
    driver = fake(plan)
    with loaded(plan, driver, budget_bytes=AHEAD) as one, one.session() as session:
        one.settle()
        driver.fail = ("synchronize", 1)
        session.push("turn")
        session.push("chunk", mel=MEL, borrow=True)
        with pytest.raises(DeviceError, match="after capture"):
            one.settle()
        driver.fail = None


def test_a_failed_session_and_a_closed_one_need_nothing_more(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = fake(plan)
    with loaded(plan, driver, budget_bytes=AHEAD) as one:
        kept, failing = one.session(), one.session()
        kept.push("chunk", mel=MEL)
        with monkeypatch.context() as patch:
            patch.setattr(driver, "launch", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                failing.push("chunk", mel=MEL)
        one.settle()
        since = len(driver.calls)
        kept.push("chunk", mel=MEL)  # alone, it has all that comes next
        one.settle()
        kept.push("chunk", mel=MEL)
        assert work(driver, since) == ["launch x6", "synchronize", "destroy", "build 19", *BUILT, "launch x6"]
        kept.close()
        one.settle()
        assert work(driver)[-3:] == ["build 19", *BUILT]  # of the first push of whoever comes


def test_times_are_those_of_pushes_that_wait_for_nothing(plan: Plan) -> None:
    with loaded(plan, fake(plan), budget_bytes=nodes(60)) as one:
        times = measure(one, repeats=1, clock=lambda: one.residency()["waits"])
        assert list(times.pushes.values()) == [0] * 4


@pytest.fixture
def executor(plan: Plan) -> Iterator[Executor]:
    yield Executor(loaded(plan, fake(plan), budget_bytes=PUSH), lanes=1)


def test_an_executor_and_its_metrics_tell_of_misses_and_waits(executor: Executor) -> None:
    async def go() -> None:
        async with executor, await executor.session() as session:
            for _ in range(2):
                await session.push("chunk", mel=MEL)
                await session.push("turn")
            executor._lanes[0].plan.settle()
            found = executor.residency()
            assert found["waits"] > 0
            lines = Metrics(lambda: executor).text().decode().splitlines()
            assert f'cadence_bytes{{part="executables"}} {float(found["resident_bytes"])}' in lines
            assert f"cadence_residency_misses_total {float(found['misses'])}" in lines
            assert f"cadence_residency_waits_total {float(found['waits'])}" in lines

    asyncio.run(go())
