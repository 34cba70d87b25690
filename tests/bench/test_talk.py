"""A talk follows from its seed, and both sides of a bench can hear it: stock and replay come to the same state."""

from itertools import islice

import pytest
import torch

from cadencec.bench.stock import StockModel, StockTalker
from cadencec.bench.talk import Talks
from tests.bench.conftest import Case
from tests.plan.models import loaded


@pytest.fixture(params=["talk_case", "pipeline_case"])
def either(request: pytest.FixtureRequest) -> Case:
    found: Case = request.getfixturevalue(request.param)
    return found


def test_a_talk_follows_from_its_seed_and_its_session(either: Case) -> None:
    def words(seed: int, who: int) -> list[tuple[str, dict[str, int]]]:
        return [(unit.event, dict(unit.choices)) for unit in islice(Talks(either.plan, seed).talk(who), 30)]

    assert words(1, 0) == words(1, 0)
    assert words(1, 0) != words(1, 1)
    assert words(1, 0) != words(2, 0)
    assert 0 <= Talks(either.plan, 1).phase(5) < 1


def test_both_sides_come_to_the_same_state(either: Case) -> None:
    talks = Talks(either.plan, 3)
    with loaded(either.plan) as plan, plan.session(seed=5) as session:
        talker = StockTalker(StockModel(either.jobs, has_draws=True), seed=5)
        for unit in islice(talks.talk(0), 60):
            session.push(unit.event, **{**unit.inputs, **unit.choices})  # type: ignore[arg-type]
            talker.push(unit)
            state = talker.state
            assert state.keys() == session.state().keys()
            for path, leaf in session.state().items():
                assert torch.equal(leaf, state[path])  # type: ignore[arg-type]


def test_sessions_of_one_stock_model_do_not_meet(either: Case) -> None:
    talks = Talks(either.plan, 3)
    model = StockModel(either.jobs, has_draws=True)

    def alone(who: int) -> StockTalker:
        talker = StockTalker(model, who)
        for unit in islice(talks.talk(who), 20):
            talker.push(unit)
        return talker

    together = [StockTalker(model, who) for who in range(2)]
    for units in zip(*(islice(talks.talk(who), 20) for who in range(2)), strict=True):
        for talker, unit in zip(together, units, strict=True):
            talker.push(unit)
    for who in range(2):
        state = alone(who).state
        assert all(torch.equal(value, state[path]) for path, value in together[who].state.items())  # type: ignore[arg-type]
