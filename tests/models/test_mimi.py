"""The Mimi adapter is the released decoder with its state passed explicitly: equal bits, frame by frame."""

import hashlib
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadencec.compile import Request, compile_file, render
from cadencec.models import mimi
from cadencec.plan.compile import silent
from cadencec.verify import verify_file
from tests.models.packages import needs

SPEC = Path(__file__).resolve().parents[2] / "specs" / "mimi.yaml"
SMALL = {"num_codebooks": 4, "heads": 2, "width": 32, "filters": 4, "context": 12}
DECODERS = ("decoder", "decoder_transformer", "upsample")
TURNS = (40, 30, 20)
"""Frames of 80 ms; the rings go around 15 times."""

TRANSCRIBED_SHA256 = {
    "modules/conv.py": "8bf546c4ddc978929481b3f74b4f93031d7d5b9fb0e1b971189bc03a1791c9cb",
    "modules/streaming.py": "bafaaafd12291727a6a613e9ac68623dc924fa6cdf57cdc9874f66fb30464d38",
    "modules/transformer.py": "f5a73d752a5bde1eda2b0b14bebd13fd81db81017d361782a07164580a687622",
}
"""Files of moshi 0.2.13 whose `reset` the adapter writes again, and whose state objects it fills."""


needs_package = needs("moshi", "moshi", "0.2.13")
pytestmark = pytest.mark.usefixtures("one_thread_without_grad")


def random_codes(seed: int) -> Tensor:
    return torch.randint(0, 2048, (1, SMALL["num_codebooks"], 1), generator=torch.Generator().manual_seed(seed))


@needs_package
def test_three_turns_in_two_sessions_have_the_released_bits() -> None:
    model, stocks = mimi.build(**SMALL), [whole() for _ in range(2)]
    states, heard = [model.init_state() for _ in stocks], []
    for turn, frames in enumerate(TURNS):
        for frame in range(frames):
            for session, stock in enumerate(stocks):
                codes = random_codes((turn * 1000 + frame) * 2 + session)
                states[session], audio = model.step(states[session], codes)
                assert torch.equal(audio, stock.decode(codes)), (turn, frame, session)
                heard.append(audio)
        for session, stock in enumerate(stocks):
            check_state(states[session], stock)
            stock.reset_streaming()
            states[session] = model.reset(states[session])
            check_state(states[session], stock)
    audio = torch.cat(heard, -1)
    assert len(torch.unique(audio)) > audio.numel() // 4


def whole() -> Any:
    """Return the released model, encoder and all, streaming one session."""
    stock = mimi._released(mimi.Size(**SMALL))
    stock.streaming_forever(1)
    return stock


def check_state(state: dict[str, Tensor], stock: object) -> None:
    """Compare every leaf with what the released objects hold."""
    held = {name: found for name, found in stock.get_streaming_state().items() if name.split(".")[0] in DECODERS}
    slots = mimi._slots(held)
    assert {path for path, slot in slots.items() if getattr(*slot).numel()} == state.keys()
    assert all(torch.equal(value, getattr(*slots[path])) for path, value in state.items())


@needs_package
def test_the_reduced_spec_compiles_and_verifies(tmp_path: Path) -> None:
    overrides = {name: str(value) for name, value in SMALL.items()}
    plan = tmp_path / "mimi.plan"
    report = compile_file(Request(str(SPEC), str(plan), overrides=overrides), silent)
    assert len(report.compiled.plan.captures) == 3
    assert report.compiled.plan.fidelity.constant_outputs == ()
    assert ", random weights\n" in render(report)
    verified = verify_file(str(plan), str(SPEC), overrides=overrides, events=60, walks=2, seconds=60)
    assert verified.differences == () and verified.resets > 6
    assert verified.against == ("the released loop",) and verified.seconds > 120
    assert verified.leaves == 6 * len(report.compiled.plan.leaves)


@needs_package
def test_the_state_is_that_of_the_release() -> None:
    """Sizes as models are shipped: eight rings of 250 rows, and the tails of the convolutions."""
    state = mimi.build().init_state()
    rings = [value for path, value in state.items() if path.endswith(".cache")]
    assert [tuple(ring.shape) for ring in rings] == [(2, 1, 8, 250, 64)] * 8
    assert sum(value.nbytes for value in state.values()) == 8_242_824


@needs_package
def test_weights_have_their_published_names() -> None:
    from cadencec.trace.recorder import collect_weights

    names = collect_weights(mimi.build(**SMALL)).tensors
    assert "decoder.model.0.conv.conv.weight" in names
    assert "decoder_transformer.transformer.layers.0.self_attn.in_projs.0.weight" in names
    assert "quantizer.rvq_first.vq.layers.0._codebook.embedding_sum" in names
    assert not any(name.startswith(("encoder", "_mimi.encoder", "downsample")) for name in names)


@needs_package
def test_what_is_written_again_is_what_was_read() -> None:
    folder = Path(str(metadata.distribution("moshi").locate_file("moshi")))
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in TRANSCRIBED_SHA256}
    assert found == TRANSCRIBED_SHA256


@needs_package
def test_nothing_empty_is_left_among_the_modules() -> None:
    mimi.build(**SMALL)
    assert not {"sphn", "sounddevice", "bitsandbytes", "sentencepiece", "moshi"} & sys.modules.keys()


def test_another_version_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: type("Found", (), {"version": "0.2.4"})())
    with pytest.raises(TraceError) as caught:
        mimi.build()
    assert str(caught.value) == (
        "CAD3408: the model needs the package `moshi`\n"
        "  expected: version 0.2.13\n"
        "  got:      version 0.2.4\n"
        "  hint:     pip install 'cadencec[moshi]'"
    )


@needs_package
def test_a_model_that_was_moved_decodes_as_before() -> None:
    """Where it is moved to, the objects that hold its state are made anew."""
    model, moved = mimi.build(**SMALL), mimi.build(**SMALL).to(torch.device("cpu"))
    states = model.init_state(), moved.init_state()
    assert states[0].keys() == states[1].keys()
    heard = []
    for frame in range(20):
        codes = torch.randint(0, 2048, (1, 4, 1), generator=torch.Generator().manual_seed(frame))
        outputs = []
        with torch.no_grad():
            for index, one in enumerate((model, moved)):
                state, audio = one.step(states[index], codes)
                outputs.append(audio)
                states = (state, states[1]) if index == 0 else (states[0], state)
        assert torch.equal(*outputs)
        heard.append(outputs[0])
    assert len(torch.cat(heard).unique()) > 1000
    assert {value.device.type for value in mimi.build(**SMALL).to(torch.device("meta")).init_state().values()} == {
        "meta"
    }
