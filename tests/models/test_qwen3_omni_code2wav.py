"""The code2wav adapter is the released vocoder with the codes it looks back at as state: equal bits, chunk by chunk."""

import hashlib
import inspect
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest
import torch
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadencec.compile import Request, compile_file, render
from cadencec.models import qwen3_omni_code2wav as code2wav
from cadencec.plan.compile import silent
from cadencec.verify import verify_file
from tests.models.packages import needs

SPEC = Path(__file__).resolve().parents[2] / "specs" / "qwen3_omni_code2wav.yaml"
SMALL = {
    "num_quantizers": 4,
    "codebook_size": 64,
    "layers": 2,
    "heads": 2,
    "width": 32,
    "inner": 64,
    "window": 16,
    "channels": 32,
}
FRAMES = (1, 7, 25, 50, 53, 101)
"""Lengths of turns, around those of chunks and of the context."""


needs_package = needs("transformers", "qwen")
pytestmark = pytest.mark.usefixtures("one_thread_without_grad")


def random_codes(frames: int, seed: int) -> Tensor:
    shape = (1, SMALL["num_quantizers"], frames)
    return torch.randint(0, SMALL["codebook_size"], shape, generator=torch.Generator().manual_seed(seed))


def decoded(model: code2wav.Code2Wav, turns: Sequence[Tensor], chunk: int) -> list[Tensor]:
    """Return the audio of turns of one length in as many sessions, which take turns chunk by chunk."""
    states = [model.init_state() for _ in turns]
    audio: list[list[Tensor]] = [[] for _ in turns]
    for new in zip(*(codes.split(chunk, -1) for codes in turns), strict=True):
        for session, codes in enumerate(new):
            states[session], said = model.step(states[session], codes)
            audio[session].append(said)
    return [torch.cat(said, -1) for said in audio]


@needs_package
@pytest.mark.parametrize("chunk", [10, 25, 50])
def test_turns_in_two_sessions_have_the_released_bits(chunk: int) -> None:
    model, stock = code2wav.build(**SMALL), code2wav.stock(**SMALL).code2wav
    for frames in FRAMES:
        turns = [random_codes(frames, 2 * frames + session) for session in range(2)]
        for codes, audio in zip(turns, decoded(model, turns, chunk), strict=True):
            assert torch.equal(audio, stock.chunked_decode(codes, chunk, 25)), (frames, chunk)
            assert len(torch.unique(audio)) > audio.numel() // 4
            assert audio.std() > 0.05


@needs_package
@pytest.mark.parametrize("context", [0, 1, 3])
def test_a_short_context_has_the_released_bits(context: int) -> None:
    codes = random_codes(11, context)
    (audio,) = decoded(code2wav.build(context, **SMALL), [codes], 4)
    assert torch.equal(audio, code2wav.stock(**SMALL).code2wav.chunked_decode(codes, 4, context))


@needs_package
def test_a_chunk_is_trimmed_as_released() -> None:
    """26 frames are 49,920 samples at 12.5 Hz and 24 kHz; the transposed convolutions trim 555 of them."""
    assert code2wav.stock(**SMALL).code2wav(random_codes(26, 0)).shape == (1, 1, 49_365)
    model = code2wav.build(**SMALL)
    state = {"codes": random_codes(25, 0)}
    after, audio = model.step(state, random_codes(10, 1))
    assert audio.shape == (1, 1, 10 * 1920 - 555)
    assert torch.equal(after["codes"], torch.cat([random_codes(25, 0), random_codes(10, 1)], -1)[..., -25:])


@needs_package
@pytest.mark.parametrize(("context", "chunk", "keys"), [(5, 4, 12), (25, 10, 40)])
def test_the_reduced_spec_compiles_and_verifies(tmp_path: Path, context: int, chunk: int, keys: int) -> None:
    """Chunks in a row, a last one of each length, and turns that are cut, in two sessions."""
    overrides = {name: str(value) for name, value in SMALL.items()} | {"context": str(context), "chunk": str(chunk)}
    plan = tmp_path / "code2wav.plan"
    report = compile_file(Request(str(SPEC), str(plan), overrides=overrides), silent)
    found = report.compiled.plan
    assert [capture.key.stage for capture in found.captures].count("step") == keys
    assert found.fidelity.constant_outputs == ()
    assert found.provenance.random_weights
    assert ", random weights\n" in render(report)
    verified = verify_file(str(plan), str(SPEC), overrides=overrides, events=60, walks=2, seconds=60)
    assert verified.differences == () and verified.resets > 6
    assert verified.against == ("the released loop",) and verified.seconds > 120
    assert verified.leaves == 6


@needs_package
def test_weights_have_their_published_names() -> None:
    from cadencec.trace.recorder import collect_weights

    names = set(collect_weights(code2wav.build(**SMALL)).tensors)
    assert "code2wav.code_embedding.weight" in names
    assert "code2wav.pre_transformer.layers.1.self_attn_layer_scale.scale" in names
    assert "code2wav.decoder.1.block.2.conv1.conv.bias" in names
    assert {f"code2wav.{name}" for name in code2wav.stock(**SMALL).code2wav.state_dict()} <= names


@needs_package
def test_builds_are_equal_and_leave_the_generator_alone() -> None:
    before = torch.random.get_rng_state()
    one, two = code2wav.stock(**SMALL).code2wav.state_dict(), code2wav.stock(**SMALL).code2wav.state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert torch.equal(before, torch.random.get_rng_state())


@needs_package
def test_what_is_written_again_is_what_was_read() -> None:
    from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoeCode2Wav

    source = inspect.getsource(Qwen3OmniMoeCode2Wav.chunked_decode)
    assert hashlib.sha256(source.encode()).hexdigest() == code2wav.TRANSCRIBED_SHA256


@needs_package
def test_a_package_with_another_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    code2wav.stock(**SMALL)  # the package looks at versions of others when it is first imported
    monkeypatch.setattr(inspect, "getsource", lambda found: "def chunked_decode(self, codes): ...")
    monkeypatch.setattr(metadata, "version", lambda name: "6.0.0")
    with pytest.raises(TraceError) as caught:
        code2wav.build(**SMALL)
    assert str(caught.value) == (
        "CAD3408: the model needs the package `transformers`\n"
        "  expected: version 5.24.0\n"
        "  got:      version 6.0.0, with another `chunked_decode`\n"
        "  hint:     pip install 'cadencec[qwen]'"
    )


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    with pytest.raises(TraceError) as caught:
        code2wav.build()
    assert str(caught.value) == (
        "CAD3408: the model needs the package `transformers`\n"
        "  expected: version 5.24.0\n"
        "  got:      not installed\n"
        "  hint:     pip install 'cadencec[qwen]'"
    )
