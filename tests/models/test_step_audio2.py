"""The Step-Audio 2 adapter is the released decoder with its state passed explicitly: equal bits, call by call."""

import hashlib
import random
from importlib import metadata
from pathlib import Path

import pytest
import torch
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadencec.compile import Request, compile_file
from cadencec.models import step_audio2
from cadencec.models.step_audio2.adapter import StepAudio2
from cadencec.models.step_audio2.stock import Stock
from cadencec.plan.compile import CompiledPlan, silent
from cadencec.verify import verify_file
from tests.models.packages import needs

SPECS = Path(__file__).resolve().parents[2] / "specs"

SMALL = {"n_timesteps": 2, "P": 20, "depth": 2, "heads": 2, "width": 16, "layers": 2, "up_layers": 1, "channels": 16}

TRANSCRIBED_SHA256 = {
    "token2wav.py": "444cc626e52f85a074dced3ecb99d7bc3af18e996474cee668bceeead4682fac",
    "cosyvoice2/flow/flow.py": "fb3175292983f0fa2e52f27a060fd5ff6470c28b415dba858c4fe800ba172784",
    "cosyvoice2/flow/flow_matching.py": "09d5e2c02efc7b656212b7b7e703f6a55c65cfa5efb66bfc6c4707adfb9160e3",
    "cosyvoice2/flow/decoder_dit.py": "790c55d898d92c8d874961e5b47b5f9d4dd5c067ec20ca5ea66833b32ce2b15d",
}
"""Files of stepaudio2-minicpmo 0.1.1 from which the adapter or its oracle write lines again."""


needs_package = needs("stepaudio2-minicpmo", "step-audio2", "0.1.1")
pytestmark = [
    pytest.mark.usefixtures("one_thread_without_grad"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the released package
]


class Session:
    """The adapter, called as a plan calls it: stage by stage, each with the leaves that it reads."""

    def __init__(self, model: StepAudio2) -> None:
        self.model, self.state = model, model.init_state()

    def reset(self) -> None:
        self.state = self.model.init_state()

    def stream(self, token: Tensor, last: bool = False) -> Tensor:
        changed, (mu, x) = self.model.encode(self.state, token, final=int(last))
        self.state |= changed
        caches: dict[str, list[Tensor]] = {"estimator_att_cache": [], "estimator_cnn_cache": []}
        for euler in range(self.model.n_timesteps):
            rows = {name: self.state[name][euler] for name in caches}
            changed, x = self.model.denoise(rows, mu, x, euler=euler)
            for name, kept in caches.items():
                kept.append(changed[name])
        self.state |= {name: torch.stack(kept) for name, kept in caches.items()}
        changed, audio = self.model.vocode(self.state, x, final=int(last))
        self.state |= changed
        return audio


def same(got: Tensor, expected: Tensor) -> bool:
    """Whether two tensors have the same bits; `torch.equal` takes zero for minus zero."""
    return got.shape == expected.shape and got.contiguous().numpy().tobytes() == expected.contiguous().numpy().tobytes()


def released(**options: int) -> Stock:
    """Return a session of the oracle, begun."""
    stock = step_audio2.stock(**options)
    stock.start()
    return stock


def differing(session: Session, stock: Stock) -> list[str]:
    """Return the state leaves that differ. The released buffers have rows for 16 Euler steps."""
    steps = session.model.n_timesteps
    released = {name: cache[:steps] if "estimator" in name else cache for name, cache in stock.stream_cache.items()}
    released |= {f"hift_{name}": cache for name, cache in stock.hift_cache_dict.items()}
    assert session.state.keys() == released.keys()
    return [name for name, cache in released.items() if not same(session.state[name], cache)]


def tokens(count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 6561, (1, count), generator=generator, dtype=torch.int32)


def check(session: Session, stock: Stock, calls: list[tuple[int, bool]], seed: int = 0) -> list[Tensor]:
    """Make the same calls to both, each from the same place in the generator; return the audio of each."""
    heard = []
    for position, (count, last) in enumerate(calls, seed):
        token = tokens(count, position)
        torch.manual_seed(position)
        expected = stock.stream(token, last)
        torch.manual_seed(position)
        audio = session.stream(token, last)
        assert same(audio, expected), (position, count, last)
        if count > 1:  # a last call of one token leaves a convolution tail of another length, for nobody
            assert differing(session, stock) == [], (position, count, last)
        heard.append(audio)
    return heard


@needs_package
@pytest.mark.parametrize(("prompt", "last"), [(20, 1), (20, 17), (300, 2), (300, 3), (300, 27)])
def test_every_call_of_two_turns_equals_the_released_loop_bit_for_bit(prompt: int, last: int) -> None:
    session, stock = Session(step_audio2.build(**SMALL | {"P": prompt})), released(**SMALL | {"P": prompt})
    assert differing(session, stock) == []
    for turn in range(2):
        heard = check(session, stock, [*[(28, False)] * 4, (last, True)], seed=10 * turn)
        assert [audio.shape[1] for audio in heard] == [20160, 24000, 24000, 24000, 3840 + 960 * last]
        session.reset()
        stock.reset()
        assert differing(session, stock) == []


@needs_package
@pytest.mark.parametrize("seed", range(3))
def test_turns_of_the_live_rule_equal_the_released_loop_bit_for_bit(seed: int) -> None:
    """Three tokens of silence, units of 0 to 25 tokens at both ends of a turn and of 25 within, 8 to 28 in a call."""
    session, stock = Session(step_audio2.build(**SMALL)), released(**SMALL)
    choose = random.Random(seed)  # noqa: S311
    for turn in range(2):
        buffered, calls = 3, []
        for unit in [choose.randrange(26), *[25] * choose.randrange(4), choose.randrange(26)]:
            buffered += unit
            while buffered >= 8:
                count = min(28, buffered)
                calls.append((count, False))
                buffered -= min(25, count - 3)
        check(session, stock, [*calls, (buffered, True)], seed=100 * turn)
        session.reset()
        stock.reset()


@needs_package
def test_outputs_depend_on_tokens_and_draws_and_the_source_is_both_voiced_and_not() -> None:
    model = step_audio2.build(**SMALL)
    heard = {}
    for seed, draw in ((1, 1), (2, 1), (1, 2)):
        torch.manual_seed(draw)
        heard[seed, draw] = Session(model).stream(tokens(28, seed))
    first = heard[1, 1]
    assert first.std() > 0.02 and first.abs().max() < 0.99
    assert all((audio - first).abs().max() > 0.01 for key, audio in heard.items() if key != (1, 1))
    state = model.init_state()
    _, (mu, x) = model.encode(state, tokens(28, 1), final=0)
    pitch_hz = model.hift.f0_predictor(x)
    assert mu.std() > 0.1 and mu[1].abs().max() == 0
    assert 0.05 < (pitch_hz > 10).float().mean() < 0.95


@needs_package
def test_a_prompt_over_17_s_works_though_the_released_buffers_end_there() -> None:
    options = SMALL | {"P": 1000, "n_timesteps": 1}
    session, stock = Session(step_audio2.build(**options)), released(**options)
    check(session, stock, [*[(28, False)] * 3, (9, True)])
    stock.flow.decoder.att_cache_buffer = stock.flow.decoder.att_cache_buffer[:, :, :, :, :1000]
    stock.reset()
    with pytest.raises(RuntimeError, match="must match"):
        stock.stream(tokens(28, 0))


@needs_package
def test_two_builds_are_equal_and_leave_the_generator_alone() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one, other = step_audio2.build(**SMALL), step_audio2.build(**SMALL)
    assert torch.equal(torch.get_rng_state(), before)
    assert one.random_weights
    names = [name for name, _ in (*one.named_parameters(), *one.named_buffers())]
    assert all(same(one.get_parameter(name).data, other.get_parameter(name).data) for name, _ in one.named_parameters())
    assert all(same(one.get_buffer(name), other.get_buffer(name)) for name, _ in one.named_buffers())
    assert "flow.decoder.estimator.blocks.0.attn.to_q.weight" in names
    assert "hift.conv_pre.parametrizations.weight.original1" in names
    assert not any("cache_buffer" in name for name in names)


@needs_package
def test_no_parameter_is_left_at_zero() -> None:
    model = step_audio2.build(**SMALL)
    assert [name for name, tensor in model.flow.named_parameters() if not tensor.any()] == []


@needs_package
def test_the_released_files_are_those_that_were_transcribed() -> None:
    folder = Path(str(metadata.distribution("stepaudio2-minicpmo").locate_file("stepaudio2")))
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in TRANSCRIBED_SHA256}
    assert found == TRANSCRIBED_SHA256


def small(**overrides: str) -> dict[str, str]:
    """Return what `--set` takes for a model that compiles in seconds."""
    return {name: str(value) for name, value in (SMALL | {"depth": 1, "layers": 1}).items()} | overrides


def compiled_and_verified(folder: Path, spec_name: str, overrides: dict[str, str], events: int) -> CompiledPlan:
    """Compile a spec to a file, load that and compare it with the released loop: over a random walk and then over a
    minute in three turns, with two sessions each."""
    spec, plan = str(SPECS / f"{spec_name}.yaml"), str(folder / "model.plan")
    with torch.enable_grad():  # as a user calls it
        done = compile_file(Request(spec, plan, embed_weights=True, overrides=overrides), silent).compiled
        report = verify_file(plan, spec, events=events, walks=1, seconds=60, overrides=overrides)
    assert report.differences == () and report.resets >= 6
    assert report.against == ("the released loop",) and report.seconds > 120
    assert report.leaves == 4 * len(done.plan.leaves)
    assert done.warnings == ()
    assert done.plan.provenance.random_weights
    return done


def captures(done: CompiledPlan) -> dict[str, int]:
    stages = [capture.key.stage for capture in done.plan.captures]
    return {stage: stages.count(stage) for stage in dict.fromkeys(stages)}


@needs_package
def test_step_audio2_compiles_and_verifies(tmp_path: Path) -> None:
    """At cache lengths P, P + 50 and P + 100: a chunk, and a last one of 1 to 3 tokens; two Euler steps."""
    done = compiled_and_verified(tmp_path, "step_audio2", small(**{"events.last.choose.n": "1..3"}), events=24)
    assert captures(done) == {"init": 1, "encode": 12, "denoise": 24, "vocode": 8, "reset": 1}
    assert len(done.plan.nodes) == 3


@needs_package
def test_minicpm_o45_compiles_and_verifies(tmp_path: Path) -> None:
    """The live rule from first units of 24 and 25 tokens on, with last units of 0 and 1."""
    ranges = {"events.first.choose.n": "24..25", "events.end.choose.n": "0..1"}
    done = compiled_and_verified(tmp_path, "minicpm_o45", small(**ranges), events=24)
    assert captures(done) == {"init": 1, "encode": 16, "denoise": 32, "vocode": 7, "reset": 1}
    assert len(done.plan.nodes) == 5


@needs_package
def test_the_middle_of_a_turn_alone_compiles_and_verifies(tmp_path: Path) -> None:
    done = compiled_and_verified(tmp_path, "step_audio2_steady", small(), events=12)
    assert captures(done) == {"init": 1, "encode": 3, "denoise": 6, "vocode": 2, "reset": 1}


@needs_package
@pytest.mark.gpu
def test_every_call_equals_the_released_loop_on_a_device_at_the_released_size() -> None:
    device, deterministic = torch.device("cuda"), torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    try:
        session, stock = Session(step_audio2.build().to(device)), step_audio2.stock("cuda")
        stock.start()
        for position, (count, last) in enumerate([*[(28, False)] * 4, (11, True)]):
            token = tokens(count, position).to(device)
            torch.manual_seed(position)
            expected = stock.stream(token, last)
            torch.manual_seed(position)
            assert torch.equal(session.stream(token, last), expected), position
            assert all(
                torch.equal(session.state[name], cache[:10] if "estimator" in name else cache)
                for name, cache in stock.stream_cache.items()
            )
    finally:
        torch.backends.cudnn.deterministic = deterministic


def test_without_the_package_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    with pytest.raises(TraceError) as caught:
        step_audio2.build(**SMALL)
    assert str(caught.value) == (
        "CAD3408: the model needs the package `stepaudio2-minicpmo`\n"
        "  expected: version 0.1.1\n"
        "  got:      not installed\n"
        "  hint:     pip install 'cadencec[step-audio2]'"
    )


@needs_package
def test_another_version_of_the_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata.Distribution, "version", property(lambda self: "0.2.0"))
    with pytest.raises(TraceError) as caught:
        step_audio2.build(**SMALL)
    assert (caught.value.code, caught.value.got) == ("CAD3408", "version 0.2.0")


def test_an_odd_prompt_is_refused() -> None:
    with pytest.raises(TraceError) as caught:
        step_audio2.build(P=301)
    assert str(caught.value) == (
        "CAD3409: a voice prompt of 301 mel frames does not fit the decoder\n"
        "  expected: an even number of frames above 0: two for each token\n"
        "  got:      `P: 301`\n"
        "  hint:     cut the prompt to 300 frames"
    )


@needs_package
def test_a_call_that_is_too_long_is_refused() -> None:
    model = step_audio2.build(**SMALL)
    with pytest.raises(TraceError) as caught:
        model.encode(model.init_state(), tokens(29, 0), final=0)
    assert str(caught.value) == (
        "CAD3409: the decoder's tables are too short for a call of the spec\n"
        "  expected: at most 28 tokens in a call, as in the released loop\n"
        "  got:      29 tokens"
    )
