"""From a spec to a plan: passes that are switched off, weights from a release, numerics, progress."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cadence_runtime.format.plan import INIT
from cadencec.passes.pipeline import PASSES
from cadencec.plan.compile import compile_spec
from cadencec.verify import verify_loaded
from tests.plan.models import STEP, compiled, loaded, refused, write_spec

BODY = "regions: {h: {shape: [2, 4]}}" + STEP

LINEAR = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.register_buffer("scale", torch.full((4,), 0.5))

    def init_state(self):
        return {"h": torch.zeros(2, 4)}

    def step(self, state, x):
        y = self.f(x) * self.scale + state["h"]
        return {"h": y.tanh()}, y

def build():
    return Model().eval()
"""


@pytest.mark.parametrize("without", [set(), {"fold"}, {"dead"}, set(PASSES)])
def test_passes_may_be_left_out(tmp_path, without):
    spec, done = compiled(tmp_path, BODY, LINEAR, switches=frozenset(PASSES) - without)
    with loaded(done.plan) as plan:
        assert verify_loaded(plan, spec, events=20, walks=1).differences == ()


def test_all_weights_that_tapes_read_are_in_the_plan(tmp_path):
    _, done = compiled(tmp_path, BODY, LINEAR, switches=frozenset())
    names = [weight.name for weight in done.plan.weights]
    assert names == sorted(names)
    assert {"f.bias", "scale"} <= set(names)
    for weight in done.plan.weights:
        assert hashlib.sha256(done.plan.blobs[weight.blob]).hexdigest() == weight.sha256
        assert weight.offset % 256 == 0


def test_the_first_recording_behind_each_tape_is_kept_where_it_is_asked_for(tmp_path):
    _, done = compiled(tmp_path, BODY, LINEAR, keep_recorded=True)
    assert [tape.stage for tape in done.recorded] == [tape.stage for tape in done.plan.tapes]
    assert sum(len(tape.ops) for tape in done.recorded) > sum(len(tape.ops) for tape in done.plan.tapes)
    assert done.plan.captures[done.plan.init].key.stage == INIT
    assert len(done.unplanned_bytes) == len(done.plan.tapes)
    _, other = compiled(tmp_path, BODY, LINEAR)
    assert other.recorded == () and other.plan == done.plan
    assert other.recorded_ops == done.recorded_ops == sum(len(tape.ops) for tape in done.recorded)


def test_progress_names_the_phases_in_order(tmp_path):
    told: list[tuple[str, int, int]] = []
    compiled(tmp_path, BODY, LINEAR, progress=lambda *news: told.append(news))
    assert list(dict.fromkeys(phase for phase, _, _ in told)) == ["build", "trace", "walk"]
    assert all(0 <= done <= total for _, done, total in told)
    assert told[-1] == ("walk", 12, 12)


def test_numerics_are_applied_recorded_and_put_back(tmp_path):
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    body = "numerics: {threads: 1, flush_denormal: true, deterministic_algorithms: true}\n" + BODY
    code = LINEAR.replace("return Model", "assert torch.are_deterministic_algorithms_enabled()\n    return Model")
    _, done = compiled(tmp_path, body, code)
    found = dict(done.plan.provenance.numerics)
    assert (found["threads"], found["flush_denormal"], found["deterministic_algorithms"]) == ("1", "true", "true")
    assert dict(done.plan.provenance.environment)["threads"] == "1"
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before
    assert torch.tensor(1e-310, dtype=torch.float64).mul(1).item() != 0


def test_numerics_are_put_back_after_an_error(tmp_path):
    before = torch.get_float32_matmul_precision()
    body = "numerics: {float32_matmul_precision: medium}\n" + BODY
    refused(tmp_path, body, LINEAR.replace("y.tanh()", "y.tanh().sum()"))
    assert torch.get_float32_matmul_precision() == before


def test_flushed_denormals_reach_the_replay(tmp_path):
    body = "numerics: {flush_denormal: true}\n" + BODY
    code = LINEAR.replace('y = self.f(x) * self.scale + state["h"]', 'y = (x * 1e-38 * 1e-4) + state["h"]')
    spec = write_spec(tmp_path, body, code)
    assert compile_spec(spec, walk_events=8).plan.fidelity.walk_events == 8


BUILD = """
import sys
from cadence_runtime.format.writer import write_plan
from cadencec.plan.compile import compile_spec
from cadencec.spec.load import load_spec

write_plan(sys.argv[2], compile_spec(load_spec(sys.argv[1])).plan)
"""


def test_two_builds_are_byte_identical_whatever_the_folder_and_hash_seed(tmp_path):
    cases = Path(__file__).resolve().parent.parent / "cases"
    plans = []
    for seed, folder in (("1", tmp_path / "one"), ("2", tmp_path / "another" / "two")):
        folder.mkdir(parents=True)
        for name in ("24_mixed_dtypes_alignment", "15_rng_noise_excitation"):
            for ending in (".py", ".yaml"):
                (folder / (name + ending)).write_bytes((cases / (name + ending)).read_bytes())
        for name in ("24_mixed_dtypes_alignment", "15_rng_noise_excitation"):
            command = [sys.executable, "-c", BUILD, f"{name}.yaml", f"{name}.plan"]
            subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
            plans.append((folder / f"{name}.plan").read_bytes())
    assert plans[:2] == plans[2:]
