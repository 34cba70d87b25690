"""Small plans to load: case 01 (a growing cache with a horizon), 25 (choices and literals), 15 (draws), and a talk."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cadence_runtime import LoadedPlan
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.writer import write_plan
from cadencec.plan.compile import compile_spec
from cadencec.spec.load import load_spec
from tests.cases.driver import spec_path
from tests.plan.models import loaded
from tests.runtime.talk import talk_plan

PlanOf = Callable[[str], Path]


@pytest.fixture(scope="session")
def plan_of(tmp_path_factory: pytest.TempPathFactory) -> PlanOf:
    """Return the plan file of a case, compiled once."""
    folder, made = tmp_path_factory.mktemp("plans"), {}

    def find(number: str) -> Path:
        if number not in made:
            made[number] = folder / f"{number}.cpu.plan"
            write_plan(made[number], compile_spec(load_spec(spec_path(number)), walk_events=8).plan)
        return made[number]

    return find


@pytest.fixture(scope="session")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """The talk, compiled once."""
    return talk_plan(tmp_path_factory.mktemp("talk"))


@pytest.fixture
def plan(talk: Plan) -> Iterator[LoadedPlan]:
    """The talk, loaded."""
    with loaded(talk) as plan:
        yield plan
