"""The golden plan with a stage that repeats, made on an H200: what a push asks of the driver."""

from pathlib import Path

import numpy as np
import pytest

from cadence_runtime.check import open_plan
from cadence_runtime.cuda.player import CudaPlayer
from cadence_runtime.format.plan import Plan
from cadence_runtime.session import LoadedPlan
from cadencec.inspect import inspect, render
from tests.cuda.fake_driver import FakeDriver
from tests.golden.test_golden_cuda import expected_params, fake, part_of

PATH = Path(__file__).parents[2] / "plans" / "euler.cuda-sm90.format-1.1.2026-12-01.plan"
MEL = np.zeros((1, 3, 16), np.float32)
STEPS = 4


@pytest.fixture(scope="module")
def plan() -> Plan:
    return open_plan(PATH)


def loaded(plan: Plan, driver: FakeDriver, address: int | None = None) -> LoadedPlan:
    driver.open(0)
    return LoadedPlan(plan, CudaPlayer(plan, driver, lambda name: iter(()), address, warm=True))


def test_what_is_in_it(plan: Plan) -> None:
    part = part_of(plan)
    refining = [n for n, capture in enumerate(plan.captures) if capture.key.stage == "refine"]
    assert len({part.launch(number).graph for number in refining}) == len(refining) / STEPS
    assert PATH.stat().st_size < 2_000_000
    assert "92.0 MiB of kernels" in render(inspect(PATH))


@pytest.mark.parametrize("address", [None, 0x5000_0000_0000])
def test_the_rows_of_each_step_go_in_and_come_back(plan: Plan, address: int | None) -> None:
    part, driver = part_of(plan), fake(plan)
    with loaded(plan, driver, address) as one, one.session() as session:
        base = part.base if address is None else address
        assert driver.param_bytes == [row for graph in part.graphs for row in expected_params(plan, graph, base)]
        for _ in range(3):
            since = len(driver.calls)
            session.push("chunk", mel=MEL)
    row = next(t for t in plan.transitions if t.source == t.target and len(t.captures) == STEPS + 2)
    copies = [call[1:] for call in driver.calls[since:] if call[0] == "copy"]
    for number in row.captures:
        launch = part.launch(number)
        for move in (*launch.before, *launch.after):
            assert (base + move.destination, base + move.source, move.size_bytes) in copies
    assert sum(len(part.launch(n).before + part.launch(n).after) for n in row.captures) >= 2 * STEPS
