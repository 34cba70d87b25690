"""States: no slab for one session, all slabs when a second opens, nothing left behind, and no session in another."""

import gc
import random
import threading
import weakref

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cadence_runtime import LoadedPlan, Session
from cadence_runtime.errors import DeviceError, SessionError
from tests.plan.models import loaded
from tests.runtime.talk import Act, frames, play


class Slabs:
    """Counts a player's slabs, and refuses more than `limit`."""

    def __init__(self, plan: LoadedPlan, limit: int = 10**9) -> None:
        self.alive: list[weakref.ref[torch.Tensor]] = []
        self.limit, self.player, self.new = limit, plan._player, plan._player.new_slab
        self.player.new_slab = self.take  # type: ignore[method-assign]

    def take(self) -> torch.Tensor:
        if len(self) >= self.limit:
            raise DeviceError("CAD8011", "planted")
        slab = self.new()
        self.alive.append(weakref.ref(slab))
        return slab  # type: ignore[no-any-return]

    def __len__(self) -> int:
        self.alive = [slab for slab in self.alive if slab() is not None]
        return len(self.alive)


def test_one_session_has_no_slab_and_a_second_brings_one_for_each(plan: LoadedPlan) -> None:
    slabs, counts = Slabs(plan), []
    one = plan.session()
    counts.append(len(slabs))
    two = plan.session()
    counts.append(len(slabs))
    three = plan.session()
    counts.append(len(slabs))
    for session in (one, two, three, one):
        play(session, Act("speak", 2, 1))
        counts.append(len(slabs))
    for session in (one, three, two):
        session.close()
        counts.append(len(slabs))
    assert counts == [0, 2, 3, 3, 3, 3, 3, 2, 0, 0]


def test_a_session_that_is_left_alone_goes_on_where_it_was(plan: LoadedPlan) -> None:
    acts = [Act("speak", 1 + salt % 2, salt) for salt in range(4)]
    with plan.session(seed=9) as session:
        alone = [play(session, act) for act in acts]
    slabs, kept, other = Slabs(plan), plan.session(seed=9), plan.session()
    got = [play(kept, act) for act in acts[:2]]
    play(other, Act("speak", 2, 77))  # the state of `kept` is in its slab now
    other.close()
    assert len(slabs) == 0
    got += [play(kept, act) for act in acts[2:]]
    assert all(torch.equal(a, b) for a, b in zip(got, alone, strict=True))  # type: ignore[arg-type]


def test_a_second_session_without_memory_leaves_the_first_as_it_was(plan: LoadedPlan) -> None:
    with plan.session(seed=1) as session:
        expected = [play(session, Act("speak", 1, salt)) for salt in range(2)]
    slabs, session = Slabs(plan, limit=1), plan.session(seed=1)
    got = [play(session, Act("speak", 1, 0))]
    with pytest.raises(DeviceError, match="planted"):
        plan.session()
    assert len(slabs) == 0
    got.append(play(session, Act("speak", 1, 1)))
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))  # type: ignore[arg-type]


def test_ten_thousand_opens_and_closes_leave_nothing(plan: LoadedPlan) -> None:
    def churn(times: int) -> None:
        for index in range(times):
            session = plan.session(seed=index)
            if index % 3:
                session.close()
            del session  # a third is dropped without being closed

    slabs, kept = Slabs(plan), plan.session()
    churn(200)
    gc.collect()
    before = len(gc.get_objects())
    churn(10_000)
    assert len(plan._states) == 1
    gc.collect()
    assert len(slabs) == 0
    assert len(gc.get_objects()) - before < 100
    kept.close()


def test_a_dropped_session_ends_on_any_thread_and_inside_of_a_push(plan: LoadedPlan) -> None:
    one, dropped = plan.session(), [plan.session()]
    thread = threading.Thread(target=dropped.clear)
    with plan._lock:  # as if a push of `one` were under way
        thread.start()
        thread.join()
    assert len(plan._states) == 1
    assert play(one, Act("speak", 1, 5)) is not None


SPEAK = st.builds(Act, st.just("speak"), st.integers(1, 3), st.integers(0, 9))
ACTS = st.one_of(
    SPEAK,
    SPEAK,
    st.just(Act("turn")),
    st.builds(Act, st.just("seed"), st.integers(0, 3)),
    st.just(Act("wrong")),
    st.just(Act("fail")),
    st.just(Act("close")),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(0, 3), ACTS), max_size=24),
    seeds=st.lists(st.integers(0, 5), min_size=4, max_size=4),
)
def test_any_interleaving_equals_each_session_alone(
    plan: LoadedPlan, steps: list[tuple[int, Act]], seeds: list[int]
) -> None:
    """Sessions open at their first act, and what is closed or failed opens again at its next one."""
    heard = Heard(plan, seeds)
    for who, act in steps:
        heard.do(who, act)
    heard.end()
    assert len(plan._states) == 0
    for who in range(4):
        with loaded(plan.plan) as other:
            alone = Heard(other, seeds)
            for each, act in steps:
                if each == who:
                    alone.do(who, act)
            alone.end()
        assert heard.told[who] == alone.told[who]


class Heard:
    """Sessions by number, and all that each made known: bits of outputs and last states, refusals, ends."""

    def __init__(self, plan: LoadedPlan, seeds: list[int]) -> None:
        self.plan, self.seeds = plan, seeds
        self.open: dict[int, Session] = {}
        self.told: list[list[object]] = [[], [], [], []]

    def do(self, who: int, act: Act) -> None:
        if who not in self.open:
            self.open[who] = self.plan.session(seed=self.seeds[who])
        session, told = self.open[who], self.told[who]
        if act.what == "close":
            self.close(who)
        elif act.what == "fail":
            self.fail(session, told)
            del self.open[who]
        elif act.what == "wrong":
            with pytest.raises(SessionError) as caught:
                session.push("speak", x=frames(4, 0))
            told.append(str(caught.value))
        else:
            found = play(session, act)
            told.append((session.enabled, None if found is None else found.numpy().tobytes()))

    def fail(self, session: Session, told: list[object]) -> None:
        """Let a push fail behind its capture: what it did to the state must be nobody's."""
        player = self.plan._player
        player.output, kept = planted, player.output  # type: ignore[method-assign]
        try:
            with pytest.raises(RuntimeError, match="planted"):
                session.push("speak", x=frames(1, 1))
        finally:
            player.output = kept  # type: ignore[method-assign]
        with pytest.raises(SessionError) as caught:
            session.push("turn")
        told.append(str(caught.value))
        session.close()

    def close(self, who: int) -> None:
        session = self.open.pop(who)
        self.told[who].append({path: leaf.numpy().tobytes() for path, leaf in session.state().items()})
        session.close()

    def end(self) -> None:
        for who in random.Random(0).sample(sorted(self.open), len(self.open)):  # noqa: S311
            self.close(who)


def planted(*_: object) -> None:
    raise RuntimeError("planted")
