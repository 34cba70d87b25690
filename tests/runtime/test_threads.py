"""Work side by side: every item once, results in order, and the first item that fails, not the first in time."""

from threading import Barrier, Event, Thread, current_thread, enumerate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.threads import side_by_side


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
