"""The Silero VAD adapter is the released model with its state passed explicitly: equal bits over a whole recording."""

import hashlib
import wave
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
import torch
from torch import Tensor

from cadencec.models import silero_vad
from cadencec.plan.compile import compile_spec
from cadencec.spec.load import load_spec
from cadencec.targets.cpu.lower import lower

ROOT = Path(__file__).resolve().parents[2]
RECORDING, SPEC = ROOT / "examples" / "speech.wav", ROOT / "specs" / "silero_vad.yaml"

RELEASED_JIT_SHA256 = "e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720"
"""Of `silero_vad.jit` in silero-vad 6.2.3, whose `forward` the adapter transcribes."""

PARAMETERS = 309_633

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the released package and of torch.jit


@pytest.fixture(scope="module")
def chunks() -> list[Tensor]:
    """The recording in chunks of (1, 512); the last one is padded with zeros."""
    with wave.open(str(RECORDING)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        samples = torch.frombuffer(bytearray(file.readframes(file.getnframes())), dtype=torch.int16)
    padded = torch.nn.functional.pad(samples.float() / 32768, (0, -len(samples) % silero_vad.CHUNK_SAMPLES))
    return list(padded.split(silero_vad.CHUNK_SAMPLES))


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def bits(tensor: Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()


def test_every_step_and_state_equals_the_released_model_bit_for_bit(chunks: list[Tensor]) -> None:
    model, stock = silero_vad.build(), silero_vad.released()
    state, heard = model.init_state(), []
    for chunk in chunks:
        x = chunk[None]
        state, speech = model.step(state, x)
        assert bits(speech) == bits(stock(x, silero_vad.SAMPLE_RATE_HZ))
        assert bits(state["context"]) == bits(stock._context)
        assert bits(state["lstm"]) == bits(stock._state)
        heard.append(speech.item())
    assert len(heard) == 426
    assert min(heard) < 0.05 and max(heard) > 0.95


def test_a_step_leaves_the_state_it_was_given_and_the_model_alone(chunks: list[Tensor]) -> None:
    model = silero_vad.build()
    state, _ = model.step(model.init_state(), chunks[50][None])
    before = {name: bits(leaf) for name, leaf in state.items()}
    (_, first), (_, again) = model.step(state, chunks[51][None]), model.step(state, chunks[51][None])
    assert bits(first) == bits(again)
    assert {name: bits(leaf) for name, leaf in state.items()} == before


def test_a_reset_session_hears_as_a_fresh_one(chunks: list[Tensor]) -> None:
    model = silero_vad.build()
    used, _ = model.step(model.init_state(), chunks[60][None])
    after, fresh = model.reset(used), model.init_state()
    assert {name: bits(leaf) for name, leaf in after.items()} == {name: bits(leaf) for name, leaf in fresh.items()}


def test_weights_have_their_released_names_and_bits() -> None:
    ours, released = silero_vad.build().state_dict(), silero_vad.released().state_dict()
    assert sorted(ours) == sorted(name for name in released if name.startswith("_model."))
    assert all(bits(ours[name]) == bits(released[name]) for name in ours)
    assert sum(tensor.numel() for tensor in ours.values()) == PARAMETERS


def test_building_leaves_the_thread_count_as_it_was() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        silero_vad.build()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_the_released_file_is_the_one_that_was_transcribed() -> None:
    file = resources.files("silero_vad.data").joinpath("silero_vad.jit")
    assert hashlib.sha256(file.read_bytes()).hexdigest() == RELEASED_JIT_SHA256


def test_scratch_of_every_tape_is_at_most_a_hundredth_above_its_lower_bound() -> None:
    plan = compile_spec(load_spec(SPEC), walk_events=2).plan
    packings = [lower(tape).packing for tape in plan.tapes]
    assert max(packing.lower_bound_bytes for packing in packings) > 0
    assert all(packing.height_bytes <= 1.01 * packing.lower_bound_bytes for packing in packings)
