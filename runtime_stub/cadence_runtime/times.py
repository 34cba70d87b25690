"""How long the pushes of a plan take here, measured where they occur.

A push is known by its key: the captures that it runs, in order. Pushes of one key do the same work on the same shapes,
so they share one time, the median of several.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import TYPE_CHECKING

from cadence_runtime.errors import CadenceError
from cadence_runtime.frozen import frozen

if TYPE_CHECKING:
    from cadence_runtime.moves import Move
    from cadence_runtime.session import LoadedPlan, Session

PushKey = tuple[int, ...]
"""The captures of a push, in order."""


@frozen
class Times:
    """Seconds of a push by its key, each behind a switch from another session."""

    pushes: Mapping[PushKey, float]

    @property
    def slowest_s(self) -> float:
        """The slowest push; 0 where nothing was measured."""
        return max(self.pushes.values(), default=0.0)


def measure(
    plan: "LoadedPlan",
    *,
    beside: Sequence["LoadedPlan"] = (),
    repeats: int = 5,
    limit: int = 2000,
    clock: Callable[[], float] = perf_counter,
) -> Times:
    """Walk over the whole timeline `repeats` times and once before, with zeros as inputs, in sessions of their own;
    return the medians. A walk takes at most `limit` pushes, the nearest first; keys beyond them have no time. Lanes
    `beside` push all the while on threads of their own: lanes that are busy at once slow one another down.

    Raises SessionError CAD7061 where no input can be made, and whatever a push raises.
    """
    from statistics import median

    from cadence_runtime.moves import Moves, zeros  # brings numpy, which reading a plan does without

    moves = Moves(plan.plan)
    walks = [[moves.of(transition) for transition in walk] for walk in moves.cover(limit)]
    found: dict[PushKey, list[float]] = {}
    with plan.session(overcommit=True) as other, _busy(beside, walks):
        for turn in range(repeats + 1):
            for session, move in _each(plan, walks):
                inputs = move.arrays(zeros)
                other.activate()
                plan.settle()
                before = clock()
                session.push(move.event, **inputs)
                took = clock() - before
                if turn:
                    found.setdefault(move.transition.captures, []).append(took)
    return Times({key: median(took) for key, took in found.items()})


def _each(plan: "LoadedPlan", walks: Sequence[Sequence["Move"]]) -> "Iterator[tuple[Session, Move]]":
    """Yield each move of the walks with the session that is there for it."""
    for walk in walks:
        with plan.session(overcommit=True) as session:
            for move in walk:
                yield session, move


@contextmanager
def _busy(lanes: Sequence["LoadedPlan"], walks: Sequence[Sequence["Move"]]) -> Iterator[None]:
    """Let lanes push until the block ends."""
    from cadence_runtime.moves import zeros

    is_over = threading.Event()

    def push(lane: "LoadedPlan") -> None:
        with suppress(CadenceError):  # a push that fails is told by the lane that is measured
            while walks and not is_over.is_set():
                for session, move in _each(lane, walks):
                    session.push(move.event, **move.arrays(zeros))
                    if is_over.is_set():
                        break

    threads = [threading.Thread(target=push, args=[lane]) for lane in lanes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
