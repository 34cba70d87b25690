"""Verification against a released loop: what it compares, and that a loop which differs is found and named."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from cadence_runtime.errors import TraceError
from cadencec.plan.stock import device_of
from cadencec.plan.turns import Timeline, session
from cadencec.verify import VerifyReport, verify_loaded
from cadencec.verify.border import handed, received
from tests.plan.models import STEP, compiled, loaded
from tests.verify.test_verify import LINEAR, PIPELINE, PIPELINE_BODY

BODY = "clocks: {f: 10 Hz}\nregions: {h: {shape: [2, 4]}}" + STEP.replace("run: [step]", "advance: {f: 1}, run: [step]")

LOOP = (
    LINEAR
    + """
class Loop:
    variants = ("fast", "plain")

    def __init__(self):
        self.model = Model().eval()

    def start(self, variant):
        assert variant == "plain"
        self.held, self.count = self.model.init_state(), 0

    def push(self, event, **inputs):
        self.count += 1
        if event != "frame":
            self.held = self.model.init_state()
            return []
        self.held, y = self.model.step(self.held, inputs["x"])
        return [{"y": y}]

    def state(self):
        return self.held

def stock(device="cpu"):
    return Loop()
"""
)


def verified(folder: Path, code: str, stages: bool = False) -> VerifyReport:
    spec, done = compiled(folder, BODY, code)
    with loaded(done.plan) as plan:
        return verify_loaded(plan, spec, events=20, walks=1, stages=stages, seconds=6)


def test_a_plan_is_held_to_the_plainest_variant_of_the_oracle(tmp_path: Path) -> None:
    report = verified(tmp_path, LOOP)
    assert (report.differences, report.against) == ((), ("the released loop",))
    assert (report.walks, report.sessions, report.leaves) == (2, 4, 4)
    assert report.seconds >= 12


def test_an_oracle_without_state_has_the_stages_beside_it(tmp_path: Path) -> None:
    report = verified(tmp_path, LOOP.replace("def state", "def other"))
    assert report.against == ("the released loop", "the model's own stages")
    assert (report.differences, report.leaves) == ((), 4)
    assert report.outputs % 2 == 0


@pytest.mark.parametrize(
    ("good", "bad", "what"),
    [
        ('[{"y": y}]', '[{"y": y + 1e-6 * (self.count == 30)}]', "output `y` of `frame`"),
        ('[{"y": y}]', "[]", "the number of outputs of `frame`"),
        ("return self.held\n", 'return {"h": self.held["h"] * 2 + 1}\n', "state leaf `h`"),
    ],
)
def test_an_oracle_that_differs_is_found_and_named(tmp_path: Path, good: str, bad: str, what: str) -> None:
    report = verified(tmp_path, LOOP.replace(good, bad))
    assert report.exit_code == 3
    first = report.differences[0]
    assert (first.what, first.against) == (what, "the released loop")
    assert f"{what} {first.when} is not that of the released loop: " in first.line()


@pytest.mark.parametrize(
    ("good", "bad", "code"),
    [
        ('[{"y": y}]', '[{"z": y}]', "CAD3426"),
        ("self.count += 1\n", "raise unknown(event, ('chunk',))\n", "CAD3424"),
    ],
)
def test_a_loop_with_other_names_is_left_out_with_stages(tmp_path: Path, good: str, bad: str, code: str) -> None:
    loop = "from cadencec.models.events import unknown\n" + LOOP.replace(good, bad)
    with pytest.raises(TraceError) as caught:
        verified(tmp_path, loop)
    assert caught.value.code == code
    report = verified(tmp_path, loop, stages=True)
    assert (report.differences, report.against, report.leaves) == ((), ("the model's own stages",), 4)


def test_sessions_have_their_seconds_and_turns(tmp_path: Path) -> None:
    _, done = compiled(tmp_path, PIPELINE_BODY, PIPELINE)
    timeline = Timeline(done.plan)
    for seed in range(3):
        pushes = list(session(timeline, 4, 5, random.Random(seed)))  # noqa: S311
        assert sum(map(timeline.resets, pushes)) >= 5
        assert sum(map(timeline.seconds, pushes)) >= 4
        nodes = [0, *(made.transition.target for made in pushes)]
        assert [made.transition.source for made in pushes] == nodes[:-1]
    assert list(session(timeline, 0, 5, random.Random(0))) == []  # noqa: S311


def test_values_cross_the_border_of_a_cuda_plan_bit_for_bit() -> None:
    for dtype in (torch.bfloat16, torch.float32, torch.int64):
        value = torch.randn(2, 3).mul(100).to(dtype)
        carried = handed(value, "cuda")
        assert isinstance(carried, np.ndarray)
        assert torch.equal(received(carried, value), value)  # type: ignore[arg-type]
    assert handed(value, "cpu") is value
    assert received(3, 3) == 3
    assert received(np.zeros(2, np.float32), torch.zeros(2, dtype=torch.int32)).dtype == torch.float32  # type: ignore[attr-defined]


def test_the_stock_model_runs_where_the_plan_does(tmp_path: Path) -> None:
    _, done = compiled(tmp_path, BODY, LINEAR)
    assert device_of(done.plan) == torch.device("cpu")
    from dataclasses import replace

    assert device_of(replace(done.plan, target="cuda")) == torch.device("cuda", 0)
