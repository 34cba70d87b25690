"""Plans that an earlier day wrote: unchanged, and still read. CPU plans are checked by structure, since their bits
belong to the machine that made them."""

import hashlib
from pathlib import Path

import pytest

from cadence_runtime.check import open_plan
from cadence_runtime.format.reader import read_plan
from cadence_runtime.format.writer import encode_plan
from cadencec.inspect import inspect

PLANS = Path(__file__).parents[2] / "plans"

PINNED = {
    "euler.cuda-sm90.format-1.1.2026-12-01.plan": "23180d91c3bfe8f146ecb8058d3e9aad82a409e92a69aeea4e433e5699c23461",
    "euler.cuda-sm90.format-1.2.2026-12-07.plan": "749365b9d4c379abeca0a1d6c41443a4a0531c7918fb0d4b1355aed95b165083",
    "growing-kv-cat.cpu.format-1.0.2026-12-01.plan": "154f123d273360b1250f828c910120dd3eb727aabb13e907076257df3ff97289",
    "growing-kv-cat.cuda-sm90.format-1.0.2026-12-01.plan": (
        "b9a80498668cf7508dd5b69971d5c4b8c0d055e9b39886c7aff9305dddc315aa"
    ),
}


def test_every_golden_plan_is_pinned_and_unchanged() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in PLANS.glob("*.plan")}
    assert found == PINNED


FACTS = {"growing-kv-cat": (["kv"], "step", 6, (7, 13)), "euler": (["kv", "gain"], "refine", 12, (3, 6))}
"""Of each model: its regions, how often which of its stages is captured, nodes and transitions."""


@pytest.mark.parametrize("name", sorted(PINNED))
def test_a_golden_plan_reads_as_it_was_written(name: str) -> None:
    plan = open_plan(PLANS / name)
    regions, stage, captures, timeline = FACTS[plan.provenance.model]
    assert [region.name for region in plan.program.regions] == regions
    assert sum(capture.key.stage == stage for capture in plan.captures) == captures
    assert (len(plan.nodes), len(plan.transitions)) == timeline
    assert all(weight.blob is not None for weight in plan.weights)
    assert read_plan(encode_plan(plan), decompress=None) == plan
    found = inspect(PLANS / name)
    assert (found.model, found.format) == (plan.provenance.model, name.split("format-")[1][:3])
