"""Work side by side: every item once, results in order, and the first item that fails, not the first in time."""

from threading import Barrier, Event, Thread, current_thread, enumerate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.threads import Begun, side_by_side


@given(st.lists(st.integers()), st.integers(0, 5))
def test_results_stand_in_the_order_of_the_items(items: list[int], threads: int) -> None:
    assert side_by_side(lambda item: item + 1, items, threads) == [item + 1 for item in items]


def test_items_do_run_side_by_side() -> None:
    meeting = Barrier(3, timeout=10)
    found = side_by_side(lambda _: (meeting.wait(), current_thread())[1], range(3), 3)
    assert len(set(found)) == 3
    assert current_thread() in found


def test_the_first_item_that_fails_is_told_when_all_is_quiet() -> None:
    late, before = Event(), set(enumerate())

    def work(item: int) -> None:
        if item == 0:
            assert late.wait(timeout=10)
        else:
            late.set()
        raise ValueError(item)

    with pytest.raises(ValueError, match=r"^0$"):
        side_by_side(work, (0, 1), 2)
    assert set(enumerate()) == before


def test_nothing_is_begun_behind_a_failure() -> None:
    begun = []

    def work(item: int) -> None:
        begun.append(item)
        if item == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side(work, range(9), 1)
    assert begun == [0, 1, 2]


def test_without_more_threads_the_caller_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    assert side_by_side(lambda _: current_thread(), range(3), 3) == [current_thread()] * 3


@given(st.integers(0, 12), st.sets(st.integers(0, 11)), st.lists(st.integers(0, 11), max_size=4), st.integers(0, 3))
def test_begun_work_ends_as_if_done_in_order(count: int, bad: set[int], asked: list[int], others: int) -> None:
    before = set(enumerate())

    def work(item: int) -> int:
        if item in bad:
            raise ValueError(item)
        return item + 100

    first = min((item for item in bad if item < count), default=None)
    with Begun(work, range(count), others) as begun:
        for item in asked:
            if item < count and first is None:
                assert begun.result(item) == item + 100
        if first is None:
            assert begun.results() == [item + 100 for item in range(count)]
        else:
            with pytest.raises(ValueError, match=f"^{first}$"):
                begun.result(max(item for item in bad if item < count))
            with pytest.raises(ValueError, match=f"^{first}$"):
                begun.results()
    assert set(enumerate()) == before


def test_what_was_begun_is_dropped_with_the_block() -> None:
    done, gate, before = [], Event(), set(enumerate())

    def work(item: int) -> None:
        assert gate.wait(timeout=10)
        done.append(item)

    def leave() -> None:
        with Begun(work, range(9), 1):
            gate.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave()
    assert len(done) < 9
    assert set(enumerate()) == before
