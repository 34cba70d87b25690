"""Checkpoints in the form of each release load into its adapter and its oracle alike, strictly, by published names, and
give the bits of the release."""

import json
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from torch import Tensor, nn

from cadence_runtime.errors import TraceError
from cadencec.cli.app import app
from cadencec.models import mimi, qwen3_omni_code2wav, silero_vad, step_audio2
from cadencec.models.step_audio2 import released
from cadencec.plan.published import load_published
from cadencec.plan.release import read_release
from cadencec.spec import load_spec
from cadencec.trace.weights import collect_weights

SPECS = Path(__file__).resolve().parents[2] / "specs"
MIMI = {"num_codebooks": 4, "heads": 2, "width": 32, "filters": 4, "context": 12}
QWEN = {"num_quantizers": 4, "codebook_size": 64, "layers": 1, "heads": 2, "width": 32, "inner": 64, "channels": 32}
STEP = {"depth": 1, "heads": 2, "width": 16, "layers": 1, "up_layers": 1, "channels": 16}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the released packages


def needs(*names: str) -> pytest.MarkDecorator:
    missing = []
    for name in names:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.fixture(autouse=True)
def one_thread_without_grad() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def trained(module: nn.Module) -> dict[str, Tensor]:
    """Return other values for all that a checkpoint of the module holds, near those that it has."""
    draw = torch.Generator().manual_seed(5)
    return {
        name: tensor * (1 + torch.rand(tensor.shape, generator=draw) / 4) if tensor.is_floating_point() else tensor
        for name, tensor in module.state_dict().items()
    }


def put(model: object, spec: str, folder: Path, weights: str) -> None:
    """Load weights files, as a spec names them, into an adapter as `compile` does, or an oracle as `verify` does."""
    text = (SPECS / f"{spec}.yaml").read_text()
    (folder / "spec.yaml").write_text(text)
    read = load_spec(folder / "spec.yaml", {"model.weights": weights})
    load_published(read_release(read), collect_weights(model), "here")


@needs("moshi")
def test_mimi(tmp_path: Path) -> None:
    """The whole codec, as published: encoder and all, attention's projections as one tensor."""
    stock = mimi._released(mimi.Size(**MIMI))
    found = trained(stock)
    for name in [name for name in found if "in_projs.0.weight" in name or "out_projs.0.weight" in name]:
        old = name.replace("in_projs.0.weight", "in_proj_weight").replace("out_projs.0.weight", "out_proj.weight")
        found[old] = found.pop(name)
    stock.load_state_dict(found)
    save_file(found, tmp_path / "mimi.safetensors")
    model = mimi.build(**MIMI)
    put(model, "mimi", tmp_path, "{file: mimi.safetensors}")
    stock.streaming_forever(1)
    codes = torch.randint(0, 2048, (1, 4, 1), generator=torch.Generator().manual_seed(1))
    state, other = model.init_state(), mimi.build(**MIMI)
    state, audio = model.step(state, codes)
    assert torch.equal(audio, stock.decode(codes))
    assert not torch.equal(audio, other.step(other.init_state(), codes)[1])
    oracle = mimi.stock(**MIMI)
    put(oracle, "mimi", tmp_path, "{file: mimi.safetensors}")
    oracle.start()
    assert torch.equal(audio, oracle.push("frame", codes=codes)[0]["audio"])


@needs("transformers")
def test_qwen3_omni_code2wav(tmp_path: Path) -> None:
    """Two files of a sharded checkpoint of the whole model, in half precision."""
    stock = qwen3_omni_code2wav.stock(**QWEN).code2wav
    found = {f"code2wav.{name}": tensor.bfloat16() for name, tensor in trained(stock).items()}
    names = sorted(found)
    shards = {"model-1.safetensors": names[:9], "model-2.safetensors": names[9:]}
    for file, held in shards.items():
        other = {f"thinker.{file}.weight": torch.zeros(3), "talker.x": torch.zeros(1)}
        save_file({name: found[name] for name in held} | (other if "1" in file else {}), tmp_path / file)
    listed = ", ".join(f'"{name}": "{file}"' for file, held in shards.items() for name in held)
    (tmp_path / "model.safetensors.index.json").write_text(f'{{"weight_map": {{{listed}}}}}')
    model = qwen3_omni_code2wav.build(**QWEN)
    put(model, "qwen3_omni_code2wav", tmp_path, "{file: model.safetensors.index.json}")
    oracle = qwen3_omni_code2wav.stock(**QWEN)
    put(oracle, "qwen3_omni_code2wav", tmp_path, "{file: model.safetensors.index.json}")
    stock.load_state_dict({name.removeprefix("code2wav."): tensor for name, tensor in found.items()})
    codes = torch.randint(0, 64, (1, 4, 10), generator=torch.Generator().manual_seed(1))
    _, audio = model.step(model.init_state(), codes)
    assert torch.equal(audio, stock(codes))
    assert torch.equal(audio, oracle.push("frames", new=codes)[0]["audio"])
    assert not torch.equal(audio, qwen3_omni_code2wav.stock(**QWEN).code2wav(codes))


@needs("stepaudio2-minicpmo", "einops", "scipy")
def test_step_audio2(tmp_path: Path) -> None:
    """`flow.pt` and `hift.pt`, the latter with the names of training."""
    stock = released.make(released.Size(**STEP), 20, 100)
    flow, hift = trained(stock.flow), trained(stock.hift)
    torch.save(flow, tmp_path / "flow.pt")
    torch.save({f"generator.{name}": tensor for name, tensor in hift.items()}, tmp_path / "hift.pt")
    model = step_audio2.build(n_timesteps=2, P=20, **STEP)
    both = '[{file: flow.pt, prefix: "flow."}, {file: hift.pt, prefix: "hift."}]'
    put(model, "step_audio2", tmp_path, both)
    own = model.state_dict()
    assert own.keys() == {f"flow.{name}" for name in flow} | {f"hift.{name}" for name in hift}
    assert all(torch.equal(own[f"flow.{name}"], tensor) for name, tensor in flow.items())
    assert all(torch.equal(own[f"hift.{name}"], tensor) for name, tensor in hift.items())
    oracle = step_audio2.stock(n_timesteps=2, P=20, **STEP)
    put(oracle, "step_audio2", tmp_path, both)
    for part, held in (("flow", oracle.flow.state_dict()), ("hift", oracle.hift.state_dict())):
        assert all(torch.equal(held[name], own[f"{part}.{name}"]) for name in held)
    for either in (model, oracle):
        with pytest.raises(TraceError) as caught:
            put(either, "step_audio2", tmp_path, '{file: flow.pt, prefix: "flow."}')
        assert caught.value.code == "CAD3903"
        assert all(f"missing `hift.{name}`" in (caught.value.got or "") for name in hift)


@needs("silero-vad")
def test_silero_vad(tmp_path: Path) -> None:
    found = trained(silero_vad.build())
    save_file(found, tmp_path / "silero.safetensors")
    model, oracle = silero_vad.build(), silero_vad.stock()
    for either in (model, oracle):
        put(either, "silero_vad", tmp_path, "{file: silero.safetensors}")
    assert all(torch.equal(tensor, found[name]) for name, tensor in model.state_dict().items())
    oracle.start()
    x = torch.randn(1, 512, generator=torch.Generator().manual_seed(1))
    _, speech = model.step(model.init_state(), x)
    assert torch.equal(speech, oracle.push("chunk", x=x)[0]["speech"])
    other = silero_vad.build()
    assert not torch.equal(speech, other.step(other.init_state(), x)[1])


@needs("silero-vad")
@pytest.mark.parametrize("file", [None, "silero.safetensors"], ids=["released", "checkpoint"])
def test_silero_vad_is_verified_by_the_command_line(tmp_path: Path, file: str | None) -> None:
    """A whole plan against the released loop: with the weights of the package, and with those of a checkpoint."""
    spec = tmp_path / "silero_vad.yaml"
    spec.write_text((SPECS / spec.name).read_text())
    weights = [] if file is None else ["--set", f"model.weights={{file: {file}}}"]
    if file is not None:
        save_file(trained(silero_vad.build()), tmp_path / file)
    plan = tmp_path / "silero.cpu.plan"
    asked_of("compile", spec, "-o", plan, *weights)
    report = asked_of("verify", plan, "--spec", spec, *weights, "--events", "40", "--walks", "2", "--seconds", "3")
    assert report["schema"] == "cadencec.verify/1"
    assert (report["equal"], report["against"]) == (True, ["the released loop"])
    assert (report["random_weights"], report["events"] > 180, report["seconds"] > 6) == (False, True, True)
    assert report["leaves"] == 2 * 2 * 3


def asked_of(verb: str, *arguments: object) -> Mapping[str, Any]:
    """Run a verb with `--json` and return what it prints; it must not fail."""
    done = CliRunner().invoke(app, [verb, *map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found
