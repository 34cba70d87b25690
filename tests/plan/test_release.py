"""Weights of a release: files are read whole or refused, and tensors fit a model exactly or are all listed."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from cadence_runtime.errors import TraceError
from cadencec.compile import Request, compile_file
from cadencec.plan.compile import compile_spec, silent
from cadencec.plan.published import load_published
from cadencec.plan.release import read_release
from cadencec.spec import Spec
from cadencec.spec.load import parse_spec
from cadencec.trace.weights import collect_weights
from cadencec.verify import verify_file
from tests.plan.models import IMPORTS, STEP

BODY = "regions: {h: {shape: [2, 4]}}" + STEP
CODE = """
class Model(nn.Module):
    random_weights = True

    def __init__(self):
        super().__init__()
        self.f = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.register_buffer("scale", torch.full((4,), 0.5))
        self.register_buffer("shift", torch.zeros(4), persistent=False)

    def init_state(self):
        return {"h": torch.zeros(2, 4)}

    def step(self, state, x):
        y = self.f(x) * self.scale + state["h"] + self.shift
        return {"h": y.tanh()}, y

def build():
    return Model().eval()
"""
NAMES = ("f.bias", "f.parametrizations.weight.original0", "f.parametrizations.weight.original1", "scale")


def tensors(**others: Tensor) -> dict[str, Tensor]:
    """Return random tensors for all of the model, with others in place of some."""
    draw = torch.Generator().manual_seed(3)
    sizes = dict(zip(NAMES, ([4], [4, 1], [4, 4], [4]), strict=True))
    return {name: torch.randn(size, generator=draw) for name, size in sizes.items()} | others


def spec_in(folder: Path, weights: str) -> Spec:
    (folder / "model.py").write_text(IMPORTS + CODE)
    text = f'cadence_spec: 1\nmodel: {{name: model, entry: "./model.py:build", weights: {weights}}}\n{BODY}'
    (folder / "model.yaml").write_text(text)
    return parse_spec(text, str(folder / "model.yaml"))


def message(spec: Spec) -> str:
    with pytest.raises(TraceError) as caught:
        compile_spec(spec)
    return str(caught.value)


def equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_a_release_is_put_into_the_model_and_named_in_the_plan(tmp_path: Path) -> None:
    published = tensors()
    save_file(published, tmp_path / "release.safetensors")
    spec = spec_in(tmp_path, "{file: release.safetensors}")
    plan = compile_spec(spec, switches=frozenset(), walk_events=4).plan
    weights = {weight.name: weight for weight in plan.weights}
    assert plan.weights_file == "release.safetensors"
    assert weights["f.bias"].blob is None
    assert weights["f.bias"].sha256 == hashlib.sha256(published["f.bias"].numpy().tobytes()).hexdigest()
    assert weights["shift"].blob is not None
    assert not plan.provenance.random_weights
    embedded = compile_spec(spec, switches=frozenset(), walk_events=4, embed_weights=True).plan
    assert embedded.weights_file is None
    assert all(weight.blob is not None for weight in embedded.weights)


def test_without_one_the_weights_are_random(tmp_path: Path) -> None:
    assert compile_spec(spec_in(tmp_path, "null"), walk_events=4).plan.provenance.random_weights


@pytest.mark.parametrize("nest", [None, "state_dict", "model"])
def test_a_file_of_torch_has_the_same_tensors(tmp_path: Path, nest: str | None) -> None:
    published = tensors()
    torch.save({nest: published, "step": 3} if nest else published, tmp_path / "release.pt")
    assert equal(read_release(spec_in(tmp_path, "{file: release.pt}")), published)


def test_an_old_file_of_torch_has_the_same_tensors(tmp_path: Path) -> None:
    torch.save(tensors(), tmp_path / "release.bin", _use_new_zipfile_serialization=False)
    assert equal(read_release(spec_in(tmp_path, "{file: release.bin}")), tensors())


def test_files_with_prefixes_join(tmp_path: Path) -> None:
    f = {name.removeprefix("f."): tensor for name, tensor in tensors().items() if name.startswith("f.")}
    torch.save(f, tmp_path / "f.pt")
    save_file({"scale": tensors()["scale"]}, tmp_path / "rest.safetensors")
    spec = spec_in(tmp_path, '[{file: f.pt, prefix: "f."}, {file: rest.safetensors}]')
    assert equal(read_release(spec), tensors())
    plan = compile_spec(spec, walk_events=4).plan
    assert plan.weights_file is None and all(weight.blob is not None for weight in plan.weights)


def test_an_index_joins_the_files_of_a_sharded_checkpoint(tmp_path: Path) -> None:
    listed = {}
    for number, name in enumerate(NAMES):
        listed[name] = f"model-{number % 2}.safetensors"
    for file in set(listed.values()):
        save_file({name: tensors()[name] for name in NAMES if listed[name] == file}, tmp_path / file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))
    assert equal(read_release(spec_in(tmp_path, "{file: model.safetensors.index.json}")), tensors())


def test_a_plan_from_a_file_of_torch_has_its_weights_beside_it_and_verifies(tmp_path: Path) -> None:
    torch.save(tensors(), tmp_path / "release.pt")
    spec_in(tmp_path, "{file: release.pt}")
    plan, spec = str(tmp_path / "model.plan"), str(tmp_path / "model.yaml")
    report = compile_file(Request(spec, plan), silent)
    assert report.written.weights_file is not None
    assert not report.written.plan.provenance.random_weights
    assert verify_file(plan, spec, events=20, walks=1).differences == ()
    torch.save(tensors(scale=torch.ones(4)), tmp_path / "release.pt")
    assert verify_file(plan, spec, events=20, walks=1).differences


def test_a_release_that_is_not_there(tmp_path: Path) -> None:
    assert message(spec_in(tmp_path, "{file: release.safetensors}")) == (
        "CAD3901: the weights file `release.safetensors` cannot be read\n"
        "  expected: a safetensors file, relative to the spec\n"
        "  got:      no such file\n"
        f"  at:       {tmp_path}/model.yaml:2:59"
    )


def test_a_release_that_is_no_safetensors_file(tmp_path: Path) -> None:
    (tmp_path / "release.safetensors").write_bytes(b"not a header")
    assert message(spec_in(tmp_path, "{file: release.safetensors}")).startswith(
        "CAD3901: the weights file `release.safetensors` cannot be read\n"
        "  expected: a safetensors file, relative to the spec\n"
    )


class Harmless:
    """An object that a file of tensors alone cannot hold."""


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (Harmless(), "objects that are no tensors, or no file of torch"),
        ([torch.zeros(2)], "`list`, where a mapping from names to tensors was expected"),
        ({"epoch": 3}, "`int` under `epoch`, where a tensor was expected"),
        (b"", "objects that are no tensors, or no file of torch"),
        (b"not a file of torch", "objects that are no tensors, or no file of torch"),
    ],
)
def test_a_file_of_torch_with_more_than_tensors(tmp_path: Path, content: object, got: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / "release.pt").write_bytes(content)
    else:
        torch.save(content, tmp_path / "release.pt")
    assert message(spec_in(tmp_path, "[{file: release.pt}]")) == (
        "CAD3901: the weights file `release.pt` cannot be read\n"
        "  expected: a file of .pt, .pth, .bin, .ckpt with tensors alone, relative to the spec\n"
        f"  got:      {got}\n"
        f"  at:       {tmp_path}/model.yaml:2:60"
    )


@pytest.mark.parametrize(
    ("index", "got"),
    [
        ("{}", "no `weight_map` from names of tensors to files"),
        ('{"weight_map": {"a": 3}}', "no `weight_map` from names of tensors to files"),
        ('{"weight_map": {"a": "../a.safetensors"}}', "the file `../a.safetensors`, which does not lie beside it"),
        ('{"weight_map": {"a": "a.safetensors"}}', "no such file as `a.safetensors`, which it lists"),
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ],
)
def test_an_index_that_does_not_read(tmp_path: Path, index: str, got: str) -> None:
    (tmp_path / "m.index.json").write_text(index)
    assert f"\n  got:      {got}\n" in message(spec_in(tmp_path, "{file: m.index.json}"))


def test_another_release_than_the_spec_pins(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / "release.safetensors")
    got = hashlib.sha256((tmp_path / "release.safetensors").read_bytes()).hexdigest()
    assert message(spec_in(tmp_path, f"{{file: release.safetensors, sha256: {'a' * 64}}}")) == (
        "CAD3902: the weights file is another one than the spec pins\n"
        f"  expected: {'a' * 64}\n"
        f"  got:      {got}\n"
        f"  at:       {tmp_path}/model.yaml:2:59"
    )


def test_two_files_with_a_tensor_of_one_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_file(tensors(), tmp_path / f"{name}.safetensors")
    assert message(spec_in(tmp_path, "[{file: a.safetensors}, {file: b.safetensors}]")) == (
        "CAD3904: two weights files hold a tensor of one name\n"
        "  got:      `f.bias`\n"
        f"  at:       {tmp_path}/model.yaml:2:83\n"
        '  hint:     tell them apart: `{file: flow.pt, prefix: "flow."}`'
    )


def test_all_that_does_not_fit_is_listed(tmp_path: Path) -> None:
    found = tensors(scale=torch.zeros(5), other=torch.zeros(2, 3), **{"f.bais": torch.zeros(4)})
    found["f.parametrizations.weight.original1"] = torch.zeros(4, 4, dtype=torch.float64)
    del found["f.bias"], found["f.parametrizations.weight.original0"]
    save_file(found, tmp_path / "release.safetensors")
    assert message(spec_in(tmp_path, "{file: release.safetensors}")) == (
        "CAD3903: the tensors of the weights file do not fit the model: 2 missing, 2 extra, 2 misshapen\n"
        "  expected: each tensor of the model, by its published name, and no other\n"
        "  got:      missing `f.bias` float32 [4]\n"
        "            missing `f.parametrizations.weight.original0` float32 [4, 1]\n"
        "            extra `f.bais` float32 [4], did you mean `f.bias`?\n"
        "            extra `other` float32 [2, 3]\n"
        "            misshapen `f.parametrizations.weight.original1` float64 [4, 4], expected float32 [4, 4]\n"
        "            misshapen `scale` float32 [5], expected float32 [4]\n"
        f"  at:       {tmp_path}/model.yaml:2:49\n"
        "  hint:     is this the release that the adapter is for, and are its options those of the release?"
    )


def load(model: object, published: dict[str, Tensor]) -> None:
    load_published(published, collect_weights(model), "here")


def test_half_precision_is_widened() -> None:
    model, weight = nn.Linear(2, 2), torch.randn(2, 2).bfloat16()
    load(model, {"weight": weight, "bias": torch.zeros(2, dtype=torch.float16)})
    assert torch.equal(model.weight.detach(), weight.float())
    with pytest.raises(TraceError, match=r"misshapen `bias` int64 \[2\], expected float32 \[2\]"):
        load(model, {"weight": weight, "bias": torch.zeros(2, dtype=torch.int64)})


def test_the_names_of_older_releases_are_those_that_the_modules_know() -> None:
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)))
    old = {"0.weight_g": torch.randn(3, 1), "0.weight_v": torch.randn(3, 4), "0.bias": torch.randn(3)}
    load(model, old)
    assert torch.equal(model[0].parametrizations.weight.original0.detach(), old["0.weight_g"])
    with pytest.raises(TraceError, match="1 misshapen"):
        load(model, old | {"0.weight_g": torch.randn(5, 1)})


def test_of_tied_tensors_one_name_will_do() -> None:
    model = nn.ModuleDict({"a": nn.Embedding(3, 2), "b": nn.Linear(2, 3, bias=False)})
    model["b"].weight = model["a"].weight
    weight = torch.randn(3, 2)
    load(model, {"b.weight": weight})
    assert torch.equal(model["a"].weight.detach(), weight)


def test_an_adapter_names_what_it_runs() -> None:
    class Adapter:
        def __init__(self) -> None:
            self.net, self.plain, self._whole = nn.Linear(2, 2), torch.zeros(2), nn.Linear(9, 9)

        def published_name(self, name: str) -> str | None:
            return None if name.startswith("encoder.") else name.removeprefix("decoder.")

    model = Adapter()
    published = {"decoder.net.weight": torch.randn(2, 2), "decoder.net.bias": torch.randn(2), "plain": torch.ones(2)}
    load(model, published | {"encoder.weight": torch.zeros(7)})
    assert torch.equal(model.net.weight.detach(), published["decoder.net.weight"])
    assert torch.equal(model.plain, torch.ones(2))
    with pytest.raises(TraceError, match=r"1 missing, 1 extra"):
        load(model, {"net.weight": torch.zeros(2, 2), "net.bais": torch.zeros(2)})
