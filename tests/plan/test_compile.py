"""From a spec to a plan: passes that are switched off, weights from a release, numerics, progress."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from cadence_runtime.errors import TraceError
from cadence_runtime.format.plan import INIT
from cadencec.passes.pipeline import PASSES
from cadencec.plan.compile import compile_spec
from cadencec.spec.load import parse_spec
from cadencec.verify import verify_loaded
from tests.plan.models import IMPORTS, STEP, compiled, loaded, refused, write_spec

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


def test_the_first_recording_behind_each_tape_is_kept(tmp_path):
    _, done = compiled(tmp_path, BODY, LINEAR)
    assert [tape.stage for tape in done.recorded] == [tape.stage for tape in done.plan.tapes]
    assert sum(len(tape.ops) for tape in done.recorded) > sum(len(tape.ops) for tape in done.plan.tapes)
    assert done.plan.captures[done.plan.init].key.stage == INIT
    assert len(done.unplanned_bytes) == len(done.plan.tapes)


def test_progress_names_the_phases_in_order(tmp_path):
    told: list[tuple[str, int, int]] = []
    compiled(tmp_path, BODY, LINEAR, progress=lambda *news: told.append(news))
    assert list(dict.fromkeys(phase for phase, _, _ in told)) == ["build", "trace", "walk"]
    assert all(0 <= done <= total for _, done, total in told)
    assert told[-1] == ("walk", 12, 12)


def release(folder, **tensors: torch.Tensor) -> str:
    save_file(tensors, folder / "release.safetensors")
    return hashlib.sha256((folder / "release.safetensors").read_bytes()).hexdigest()


def write_released(folder, sha256: str | None = None):
    (folder / "model.py").write_text(IMPORTS + LINEAR)
    pin = f", sha256: {sha256}" if sha256 else ""
    head = (
        'cadence_spec: 1\nmodel: {name: model, entry: "./model.py:build", '
        f"weights: {{file: release.safetensors{pin}}}}}\n"
    )
    return parse_spec(head + BODY, str(folder / "model.yaml"))


def test_a_release_is_put_into_the_model_and_named_in_the_plan(tmp_path):
    bias = torch.tensor([1.0, 2.0, 3.0, 4.0])
    spec = write_released(tmp_path, release(tmp_path, **{"f.bias": bias}))
    plan = compile_spec(spec, switches=frozenset(), walk_events=4).plan
    weights = {weight.name: weight for weight in plan.weights}
    assert plan.weights_file == "release.safetensors"
    assert weights["f.bias"].blob is None
    assert weights["f.bias"].sha256 == hashlib.sha256(bias.numpy().tobytes()).hexdigest()
    assert weights["scale"].blob is not None
    embedded = compile_spec(spec, switches=frozenset(), walk_events=4, embed_weights=True).plan
    assert embedded.weights_file is None
    assert all(weight.blob is not None for weight in embedded.weights)


def message(spec) -> str:
    with pytest.raises(TraceError) as caught:
        compile_spec(spec)
    return str(caught.value)


def test_a_release_that_is_not_there(tmp_path):
    assert message(write_released(tmp_path)) == (
        "CAD3901: the weights file `release.safetensors` cannot be read\n"
        "  expected: a safetensors file, relative to the spec\n"
        "  got:      no such file\n"
        f"  at:       {tmp_path}/model.yaml:2:59"
    )


def test_a_release_that_is_no_safetensors_file(tmp_path):
    (tmp_path / "release.safetensors").write_bytes(b"not a header")
    assert message(write_released(tmp_path)).startswith(
        "CAD3901: the weights file `release.safetensors` cannot be read\n"
        "  expected: a safetensors file, relative to the spec\n"
    )


def test_another_release_than_the_spec_pins(tmp_path):
    got = release(tmp_path, **{"f.bias": torch.zeros(4)})
    assert message(write_released(tmp_path, "a" * 64)) == (
        "CAD3902: the weights file is another one than the spec pins\n"
        f"  expected: {'a' * 64}\n"
        f"  got:      {got}\n"
        f"  at:       {tmp_path}/model.yaml:2:59"
    )


def test_a_release_that_does_not_fit(tmp_path):
    release(tmp_path, **{"f.bais": torch.zeros(4)})
    assert message(write_released(tmp_path)) == (
        "CAD3903: tensor `f.bais` of the weights file does not fit the model\n"
        "  expected: a tensor of the model\n"
        "  got:      float32 [4]\n"
        f"  at:       {tmp_path}/model.yaml:2:59\n"
        "  hint:     did you mean `f.bias`?"
    )
    release(tmp_path, **{"f.bias": torch.zeros(5)})
    assert message(write_released(tmp_path)) == (
        "CAD3903: tensor `f.bias` of the weights file does not fit the model\n"
        "  expected: float32 [4]\n"
        "  got:      float32 [5]\n"
        f"  at:       {tmp_path}/model.yaml:2:59\n"
        "  hint:     is this another release of the model?"
    )


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
