"""Capacity is arithmetic; a plan that was told to admit it refuses the session beyond, with the figures."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime import Capacity, LoadedPlan, Times
from cadence_runtime.errors import SessionError, UsageError

CADENCE = Fraction(32, 1000)


def capacity(**given: object) -> Capacity:
    return Capacity(**{"slab_bytes": 100, "free_bytes": 1000, "slowest_s": 0.004, "cadence_s": CADENCE, **given})  # type: ignore[arg-type]


def test_the_smaller_of_both_bounds_counts() -> None:
    assert (capacity().by_bytes, capacity().by_time, capacity().sessions) == (10, 6, 6)
    assert capacity(free_bytes=400).sessions == 4
    assert capacity(lanes=2).by_time == 12
    assert capacity(ahead_s=0.022).by_time == 2
    assert capacity(ahead_s=1.0).sessions == 0
    assert capacity(free_bytes=0).by_bytes == 1
    assert capacity(free_bytes=0, lanes=3).by_bytes == 3


def test_what_is_not_known_bounds_nothing() -> None:
    assert capacity(slowest_s=0.0).by_time is None
    assert capacity(cadence_s=None).sessions == 10
    assert capacity(slab_bytes=0, cadence_s=None).sessions is None
    assert capacity(slab_bytes=0, cadence_s=None).figures() == "any number"
    capacity(slab_bytes=0, cadence_s=None).check(10**9)


@given(st.floats(1e-6, 1.0), st.floats(0.0, 0.05), st.floats(0.01, 1.0), st.integers(1, 4), st.fractions("1/1000", "2"))
def test_the_sessions_of_a_lane_never_need_more_than_the_share(
    slowest_s: float, ahead_s: float, share: float, lanes: int, cadence_s: Fraction
) -> None:
    found = capacity(slowest_s=slowest_s, ahead_s=ahead_s, share=share, lanes=lanes, cadence_s=cadence_s).by_time
    assert found is not None
    each, rest = divmod(found, lanes)
    room_s = share * max(0.0, float(cadence_s) - ahead_s)
    assert rest == 0
    assert each * slowest_s <= room_s * (1 + 1e-9)
    assert (each + 1) * slowest_s > room_s * (1 - 1e-9)


@pytest.mark.parametrize(("share", "ahead_s"), [(0.0, 0.0), (1.1, 0.0), (0.5, -1.0)])
def test_figures_of_no_use_are_refused(share: float, ahead_s: float) -> None:
    with pytest.raises(UsageError) as caught:
        capacity(share=share, ahead_s=ahead_s)
    assert str(caught.value) == (
        "CAD9701: a capacity of no use\n"
        "  expected: a share above 0 and up to 1, and at least 0 seconds ahead\n"
        f"  got:      a share of {share:g}, {ahead_s:g} seconds ahead"
    )


def test_a_plan_takes_the_figures_from_itself_and_its_device(plan: LoadedPlan) -> None:
    found = plan.capacity(Times({(0,): 0.001}), ahead_s=0.01, share=0.5)
    assert found.slab_bytes == plan.report()["state"]
    assert found.free_bytes > 2**20
    assert (found.slowest_s, found.cadence_s, found.lanes) == (0.001, Fraction(1, 50), 1)
    assert found.sessions == 5
    assert plan.capacity().by_time is None


def test_a_session_beyond_is_refused_unless_it_may_overcommit(plan: LoadedPlan) -> None:
    plan.admit(capacity(slab_bytes=768, free_bytes=1600, slowest_s=0.001, ahead_s=0.002))
    first, second = plan.session(), plan.session()
    with pytest.raises(SessionError) as caught:
        plan.session()
    assert str(caught.value) == (
        "CAD7060: the plan carries no more sessions here\n"
        "  expected: at most 2: 2 by memory (768 bytes each, 1600 free), "
        "24 by time (pushes of 1 ms in 0.8 of 32 ms less 2 ms ahead, one lane)\n"
        "  got:      2 open\n"
        "  hint:     close one, or open it with `overcommit`: then the newest sessions may be late"
    )
    third = plan.session(overcommit=True)
    third.close()
    second.close()
    plan.session().close()
    plan.admit(None)
    assert len([plan.session() for _ in range(5)]) == 5
    first.close()
