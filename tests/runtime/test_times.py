"""Times are medians by key, each taken behind a switch, and measuring leaves nothing behind."""

import threading
from collections.abc import Iterator
from itertools import count

import torch

from cadence_runtime import LoadedPlan, Times, measure
from tests.runtime.talk import Act, play


def ticking(step_s: float) -> Iterator[float]:
    """A clock that moves by as much between any two looks."""
    return (index * step_s for index in count())


def test_each_key_that_can_be_reached_has_a_time(plan: LoadedPlan) -> None:
    clock = ticking(0.25)
    times = measure(plan, repeats=3, clock=lambda: next(clock))
    assert times.pushes.keys() == {transition.captures for transition in plan.plan.transitions}
    assert set(times.pushes.values()) == {0.25}
    assert times.slowest_s == 0.25


def test_the_median_is_taken_and_the_first_walk_is_not(plan: LoadedPlan) -> None:
    keys = len({transition.captures for transition in plan.plan.transitions})
    took = {0: 100.0, 1: 1.0, 2: 9.0, 3: 2.0}  # seconds of every push, by walk
    calls, now = count(), [0.0]

    def clock() -> float:
        index = next(calls)
        pushes = index // 2
        now[0] += took[min(pushes // length, 3)] if index % 2 else 0.0
        return now[0]

    length = walk_length(plan)
    times = measure(plan, repeats=3, clock=clock)
    assert len(times.pushes) == keys
    assert min(times.pushes.values()) == 2.0
    assert times.slowest_s == 2.0


def walk_length(plan: LoadedPlan) -> int:
    """How many pushes one walk over the timeline takes, each with two looks at the clock."""
    looks = count()
    measure(plan, repeats=0, clock=lambda: float(next(looks)))
    return next(looks) // 2


def test_pushes_are_timed_behind_a_switch(plan: LoadedPlan) -> None:
    switched = []
    activate = plan._states.activate
    plan._states.activate = lambda ticket: switched.append(activate(ticket)) or switched[-1]  # type: ignore
    measure(plan, repeats=1)
    assert switched
    assert all(switched)


def test_measuring_leaves_sessions_as_they_were(plan: LoadedPlan) -> None:
    acts = [Act("speak", 2, salt) for salt in range(3)]
    with plan.session(seed=4) as session:
        alone = [play(session, act) for act in acts]
    with plan.session(seed=4) as session:
        got = [play(session, acts[0])]
        measure(plan, repeats=1)
        got += [play(session, act) for act in acts[1:]]
        assert len(plan._states) == 1
    assert all(torch.equal(a, b) for a, b in zip(got, alone, strict=True))  # type: ignore[arg-type]


def test_lanes_beside_push_all_the_while_and_end_with_it(plan: LoadedPlan) -> None:
    with plan.lane() as lane:
        pushed, run = [0], lane._player.run

        def counted(capture: int, generator: object) -> object:
            pushed[0] += 1
            return run(capture, generator)

        lane._player.run = counted  # type: ignore[method-assign]
        before = threading.active_count()
        times = measure(plan, beside=[lane], repeats=30)
        assert times.pushes.keys() == {transition.captures for transition in plan.plan.transitions}
        assert pushed[0] > 0
        assert threading.active_count() == before
        assert len(lane._states) == 0


def test_nothing_measured_takes_no_time() -> None:
    assert Times({}).slowest_s == 0.0
