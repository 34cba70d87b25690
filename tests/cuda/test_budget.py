"""A budget of executables: what is built and destroyed when, on which thread, and that it is never exceeded."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cadence_runtime.cuda import budget
from cadence_runtime.cuda.budget import Budgeted, Task, next_task
from cadence_runtime.cuda.driver import driver_error
from cadence_runtime.cuda.executables import Maker
from cadence_runtime.cuda.needs import Needs
from cadence_runtime.errors import DeviceError
from tests.cuda.timelines import Push, needs_of, nodes


class Shop:
    """Stands in for `Maker` and its driver: knows what is alive, what may be running and who did what."""

    def __init__(self, needs: Needs, budget_bytes: int) -> None:
        self.needs, self.budget_bytes = needs, budget_bytes
        self.driver = self
        self.log: list[str] = []
        self.alive: dict[str, int] = {}
        self.running: set[str] = set()
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.fails: BaseException | None = None
        self.fails_at = ""

    def name(self, capture: int) -> str:
        return f"capture {capture} of stage `step`"

    def make(self, capture: int, stream: str) -> str:
        assert self.gate.wait(timeout=10)
        (graph,) = self.needs.of((capture,))
        self._note(f"build {graph}")
        handle = f"{graph}, {sum(each.startswith('build') for each in self.log)}"
        self.alive[handle] = graph
        assert self.needs.bytes(self.alive.values()) <= self.budget_bytes
        return handle

    def destroy(self, handle: str) -> None:
        assert handle not in self.running
        self._note(f"destroy {self.alive[handle]}")
        del self.alive[handle]

    def use(self) -> None:
        self._note("")

    def synchronize(self, stream: str) -> None:
        assert stream == "builder's"
        self._note("upload")

    def finish(self) -> None:
        self._note("finish")
        self.running.clear()

    def since(self, start: int) -> list[str]:
        return [each for each in self.log[start:] if each not in ("", "upload")]

    def _note(self, what: str) -> None:
        self.log.append(what)
        if threading.current_thread() is not threading.main_thread():
            self.threads.add(threading.current_thread().name)
        if self.fails is not None and what.startswith(self.fails_at):
            raise self.fails


@contextmanager
def budgeted(needs: Needs, budget_bytes: int) -> Iterator[tuple[Budgeted, Shop]]:
    shop = Shop(needs, budget_bytes)
    made = Budgeted(cast(Maker, shop), needs, budget_bytes, "builder's", shop.finish)
    try:
        yield made, shop
    finally:
        shop.gate.set()
        shop.fails = None
        shop.running.clear()
        made.close()
        assert shop.alive == {}
        assert "cadence-builder" not in {thread.name for thread in threading.enumerate()}


def run(made: Budgeted, shop: Shop, ticket: int, captures: tuple[int, ...], target: int) -> None:
    """Push as a session does."""
    made.ready(captures)
    for capture in captures:
        handle = made.use(capture)
        assert (shop.alive[handle],) == shop.needs.of((capture,))
        shop.running.add(handle)
    made.stands(ticket, target)


LINE = [Push(0, 1, (1,)), Push(1, 2, (2,)), Push(2, 0, (3,))]
"""Three nodes in a circle, each with one push; every executable is as large as another."""


def test_what_can_come_next_is_built_ahead_and_what_is_unused_for_longest_goes() -> None:
    with budgeted(needs_of([1] * 4, LINE), nodes(2)) as (made, shop):
        made.settle()
        assert shop.since(0) == ["build 0", "build 1"]  # nobody is there: a session can be opened, and push
        start = len(shop.log)
        run(made, shop, 7, (0,), 0)
        made.settle()
        assert shop.since(start) == []
        run(made, shop, 7, (1,), 1)
        made.settle()
        assert shop.since(start) == ["finish", "destroy 0", "build 2"]
        run(made, shop, 7, (2,), 2)
        made.settle()
        assert shop.since(start)[3:] == ["finish", "destroy 1", "build 3"]
        assert shop.threads == {"cadence-builder"}
        assert made.figures() == {
            "budget_bytes": nodes(2),
            "resident_bytes": nodes(2),
            "executables": 2,
            "built": 4,
            "destroyed": 2,
            "misses": 0,
            "waits": 0,
        }


def test_a_push_that_comes_too_early_waits_for_the_builder_and_is_counted() -> None:
    with budgeted(needs_of([1] * 4, LINE), nodes(2)) as (made, shop):
        run(made, shop, 7, (0,), 0)
        made.settle()
        shop.gate.clear()
        run(made, shop, 7, (1,), 1)
        before = made.figures()
        threading.Timer(0.05, shop.gate.set).start()
        run(made, shop, 7, (2,), 2)
        assert made.figures()["misses"] == before["misses"] + 1
        assert made.figures()["waits"] == before["waits"] + 1


def test_what_a_push_waits_for_comes_before_what_can_come_next() -> None:
    wide = [Push(0, 0, (each,)) for each in range(1, 6)]
    with budgeted(needs_of([1] * 6, wide), nodes(3)) as (made, shop):
        run(made, shop, 7, (0,), 0)
        made.settle()
        start = len(shop.log)
        run(made, shop, 7, (5,), 0)  # beyond the budget: never built ahead
        assert shop.since(start)[-1] == "build 5"
        assert made.figures()["waits"] >= 1
        made.settle()
        assert len(shop.alive) == 3


def test_several_sessions_share_the_budget_and_the_one_that_pushed_longest_ago_comes_first() -> None:
    with budgeted(needs_of([1] * 4, LINE), nodes(2)) as (made, shop):
        for ticket in (1, 2):
            run(made, shop, ticket, (0,), 0)
        made.settle()
        run(made, shop, 1, (1,), 1)
        made.settle()
        assert sorted(shop.alive.values()) == [1, 2]
        run(made, shop, 1, (2,), 2)
        run(made, shop, 2, (1,), 1)
        made.settle()
        assert sorted(shop.alive.values()) == [2, 3]
        made.stands(1, None)
        run(made, shop, 2, (2,), 2)
        made.settle()
        assert 3 in shop.alive.values()


def test_warming_fills_the_budget_with_the_nearest() -> None:
    with budgeted(needs_of([1] * 4, LINE), nodes(3)) as (made, shop):
        made.warm()
        assert shop.since(0) == ["build 0", "build 1", "build 2"]
        run(made, shop, 7, (0,), 0)
        made.settle()
        assert len(shop.since(0)) == 3


def test_a_capture_that_nobody_announced_runs_too() -> None:
    with budgeted(needs_of([1] * 4, LINE), nodes(1)) as (made, shop):
        assert shop.alive[made.use(3)] == 3
        assert shop.alive[made.use(2)] == 2


@pytest.mark.parametrize("where", ["build", "upload", "destroy", "finish"])
def test_a_failure_of_the_builder_is_told_by_the_next_push_before_anything_happens(where: str) -> None:
    with budgeted(needs_of([1] * 4, LINE), nodes(1)) as (made, shop):
        run(made, shop, 7, (0,), 0)
        made.settle()
        shop.fails, shop.fails_at = driver_error("cuGraphInstantiate", "CUDA_ERROR_OUT_OF_MEMORY"), where
        run(made, shop, 7, (1,), 1)
        for _ in range(2):  # it is tried again
            with pytest.raises(DeviceError, match="cuGraphInstantiate"):
                run(made, shop, 7, (2,), 2)
        shop.fails = None
        with suppress(DeviceError):  # one more may have come before that
            made.settle()
        run(made, shop, 7, (2,), 2)


def test_a_failure_that_is_no_error_of_the_driver_has_a_code() -> None:
    with budgeted(needs_of([1] * 4, LINE), nodes(1)) as (made, shop):
        made.settle()
        shop.fails, shop.fails_at = MemoryError("no room on the host"), "build"
        made.stands(7, 1)
        with pytest.raises(DeviceError) as caught:
            made.ready((2,))
    assert str(caught.value) == (
        "CAD8007: an executable could not be built ahead\n"
        "  expected: a builder that works\n"
        "  got:      MemoryError: no room on the host\n"
        "  at:       capture 2 of stage `step`"
    )


def test_a_system_without_a_thread_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(budget.threading.Thread, "start", refuse)
    needs = needs_of([1] * 4, LINE)
    with pytest.raises(DeviceError, match="CAD8007") as caught:
        Budgeted(cast(Maker, Shop(needs, nodes(1))), needs, nodes(1), "builder's", lambda: None)
    assert (caught.value.at, caught.value.got) == ("the builder of executables", "RuntimeError: can't start new thread")


def test_the_next_task() -> None:
    sizes = [1, 2, 3, 4]
    assert next_task([0, 1], (0,), (1,), sizes, 6) is None
    assert next_task([0, 1], (2,), (), sizes, 6) == Task((), 2)
    assert next_task([0, 1], (2,), (), sizes, 5) == Task((0,), 2)
    assert next_task([1, 0], (2,), (0,), sizes, 5) == Task((1,), 2)
    assert next_task([1, 0], (0,), (3, 2), sizes, 4) == Task((1,), 2)  # the first that is wanted does not fit beside


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=8).flatmap(
        lambda sizes: st.tuples(
            st.just(sizes),
            st.lists(st.sampled_from(range(len(sizes))), unique=True),
            st.lists(st.sampled_from(range(len(sizes))), unique=True, max_size=3),
            st.lists(st.sampled_from(range(len(sizes))), max_size=8),
            st.integers(0, 40),
        )
    )
)
def test_tasks_come_to_an_end_within_the_budget(
    case: tuple[list[int], list[int], list[int], list[int], int],
) -> None:
    sizes, made, pinned, wanted, spare = case
    budget_bytes = max(sum(sizes[graph] for graph in pinned), sum(sizes[graph] for graph in made)) + spare
    for _ in range(len(sizes) + 1):
        task = next_task(made, tuple(pinned), wanted, sizes, budget_bytes)
        if task is None:
            break
        assert not set(task.destroy) & set(pinned)
        made = [graph for graph in made if graph not in task.destroy] + [task.build]
        assert sum(sizes[graph] for graph in made) <= budget_bytes
    assert task is None
    assert set(pinned) <= set(made)
    absent = [sizes[graph] for graph in wanted if graph not in made]
    there = sum(sizes[graph] for graph in {*pinned, *wanted} & set(made))
    assert all(there + size > budget_bytes for size in absent)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Needs, list[Push], int, list[tuple[int, int]]]:
    """A closed timeline, a budget that holds every push of it, and what sessions do: (session, choice)."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=8))
    count = draw(st.integers(1, 5))
    run = st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=3).map(tuple)
    pushes = [
        Push(source, draw(st.integers(0, count - 1)), draw(run))
        for source in range(count)
        for _ in range(draw(st.integers(1, 3)))
    ]
    needs = needs_of(sizes, pushes)
    budget_bytes = draw(st.integers(needs.push_bytes, nodes(sum(sizes))))
    acts = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2)), max_size=30))
    return needs, pushes, budget_bytes, acts


@settings(deadline=None)
@given(cases(), st.booleans())
def test_the_budget_holds_and_each_push_finds_its_executables(
    case: tuple[Needs, list[Push], int, list[tuple[int, int]]], settles: bool
) -> None:
    needs, pushes, budget_bytes, acts = case
    at: dict[int, int] = {}
    with budgeted(needs, budget_bytes) as (made, shop):
        for session, choice in acts:
            if settles:
                made.settle()
            before: Any = made.figures()["misses"]
            can_come = {graph for node in at.values() for graphs in needs.next(node) for graph in graphs}
            if session not in at:
                run(made, shop, session, (0,), 0)
                at[session] = 0
            elif choice < 0:
                made.stands(session, None)
                del at[session]
            else:
                leaving = [push for push in pushes if push.source == at[session]]
                push = leaving[choice % len(leaving)]
                run(made, shop, session, push.captures, push.target)
                at[session] = push.target
                if settles and needs.bytes(can_come) <= budget_bytes:
                    assert made.figures()["misses"] == before
            assert made.figures()["resident_bytes"] <= budget_bytes
