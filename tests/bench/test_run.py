"""Runs: lateness of the stock loop by arithmetic on a clock of its own, and of the replay that every unit was done."""

import pytest

from cadencec.bench.live import largest
from cadencec.bench.run import LEAD_S, Conditions, Ran, run_replay, run_stock
from cadencec.bench.stock import StockModel
from cadencec.bench.talk import Talks, Unit
from tests.bench.conftest import Case
from tests.plan.models import loaded


class Clock:
    """Seconds, moved on by sleeping and by units."""

    def __init__(self) -> None:
        self.now_s = 5.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()

    def push(talker: object, unit: Unit) -> None:
        made.now_s += 0.004

    monkeypatch.setattr("cadencec.bench.stock.StockTalker.push", push)
    return made


def stock(case: Case, clock: Clock, sessions: int, conditions: Conditions) -> Ran:
    model = StockModel(case.jobs, has_draws=False)
    return run_stock(model, Talks(case.plan, 1), sessions, conditions, clock, clock.sleep)


def test_a_unit_alone_is_early_by_what_it_does_not_take(talk_case: Case, clock: Clock) -> None:
    ran = stock(talk_case, clock, 1, Conditions(0.02, 0.0, 0.2, None))
    assert (ran.sessions, ran.units, ran.late) == (1, 10, 0)
    assert ran.lateness_s == pytest.approx([0.004 - 0.02] * 10)
    ahead = stock(talk_case, clock, 1, Conditions(0.02, 0.017, 0.2, None))
    assert ahead.late == 10
    assert ahead.percentile(0.5) == pytest.approx(0.001)


def test_units_wait_for_those_that_came_before(talk_case: Case, clock: Clock) -> None:
    began_s = clock.now_s
    ran = stock(talk_case, clock, 5, Conditions(0.02, 0.0, 0.2, None))
    assert len(ran.lateness_s) == ran.units == 50
    assert ran.late == 0  # five of them fill the cadence just so
    assert clock.now_s - began_s == pytest.approx(LEAD_S + 0.2, abs=0.02)


def test_an_overload_is_given_up_and_what_is_left_is_late(talk_case: Case, clock: Clock) -> None:
    ran = stock(talk_case, clock, 20, Conditions(0.02, 0.0, 2.0, None))
    assert ran.units == 2000
    assert len(ran.lateness_s) < ran.units
    assert ran.late > 1900
    assert ran.percentile(1.0) > 10 * 0.02


@pytest.mark.parametrize("lanes", [0, 2])
def test_every_unit_of_the_replay_is_done(talk_case: Case, lanes: int) -> None:
    with loaded(talk_case.plan) as plan:
        ran = run_replay(plan, Talks(talk_case.plan, 1), 3, Conditions(0.2, 0.05, 0.7, lanes))
    assert (ran.sessions, ran.units, len(ran.lateness_s)) == (3, 9, 9)
    assert min(ran.lateness_s) > -0.15


def test_percentiles_are_of_the_units_that_were_done() -> None:
    ran = Ran(1, 12, tuple(range(10)), 0.5)
    assert [ran.percentile(share) for share in (0.0, 0.5, 0.99, 1.0)] == [0, 5, 9, 9]
    assert ran.late == 9 + 2


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 50, 63, 64, 200])
def test_the_largest_number_is_found_by_halving(limit: int) -> None:
    asked: list[int] = []

    def run(sessions: int) -> Ran:
        asked.append(sessions)
        return Ran(sessions, 1, (1.0 if sessions > limit else -1.0,), 0.0)

    runs, found = largest(run)
    assert limit - max(1, limit // 20) <= found <= limit
    assert [ran.sessions for ran in runs] == sorted(asked)
    assert len(asked) < 20
