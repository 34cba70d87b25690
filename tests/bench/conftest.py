"""Plans to bench: the talk, and a pipeline of stages with a queue, rows and draws."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from cadence_runtime.format.plan import Plan
from cadence_runtime.format.writer import write_plan
from cadencec.plan.stock import stock_jobs
from cadencec.spec.spec import Spec
from cadencec.trace.jobs import Jobs
from tests.plan.models import compiled
from tests.runtime.talk import CODE, SPEC
from tests.verify.test_verify import PIPELINE, PIPELINE_BODY


@dataclass(frozen=True, slots=True)
class Case:
    """A plan with its spec, in memory and as files."""

    spec: Spec
    plan: Plan
    plan_file: Path
    spec_file: Path

    @property
    def jobs(self) -> Jobs:
        """Its stock model, freshly built."""
        return stock_jobs(self.spec)


def case(folder: Path, body: str, code: str) -> Case:
    spec, done = compiled(folder, body, code)
    head = 'cadence_spec: 1\nmodel: {name: model, entry: "./model.py:build"}\n'
    (folder / "model.yaml").write_text(head + body)
    write_plan(folder / "model.cpu.plan", done.plan)
    return Case(spec, done.plan, folder / "model.cpu.plan", folder / "model.yaml")


@pytest.fixture(scope="session")
def talk_case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("talk"), SPEC, CODE)


@pytest.fixture(scope="session")
def pipeline_case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("pipeline"), PIPELINE_BODY, PIPELINE)
