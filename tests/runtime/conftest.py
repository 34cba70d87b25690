"""Small plans to load: case 01 (a growing cache with a horizon), case 25 (choices and literals) and case 15 (draws)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cadence_runtime.format.writer import write_plan
from cadencec.plan.compile import compile_spec
from cadencec.spec.load import load_spec
from tests.cases.driver import spec_path

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
