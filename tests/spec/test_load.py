"""The loader: every independent error at once and in order, overrides, places and digests."""

from fractions import Fraction
from pathlib import Path

import pytest

from cadence_runtime.errors import CadenceError, ErrorList
from cadence_runtime.host.program import ABSENT, Horizon
from cadencec.spec import Spec, WeightsFile, load_spec, parse_spec
from tests.spec.example import BASE, codes, edited, refused


def parsed(text: str = BASE, **overrides: str) -> Spec:
    return parse_spec(text, "codec.yaml", overrides)


def test_a_spec_becomes_a_program() -> None:
    spec = parsed()
    program = spec.program
    assert (spec.model.name, spec.model.entry, spec.model.options) == ("codec", "./codec.py:build", (("width", 8),))
    assert dict(program.params) == {"width": 8, "P": 4}
    assert [(clock.name, clock.rate_hz) for clock in program.clocks] == [("token", 25), ("sample", 24000)]
    assert (program.cadence_s, program.horizon) == (Fraction(1, 25), Horizon("seconds", Fraction(60)))
    kv, tail = program.regions
    assert (kv.shape, kv.axis, kv.start, kv.retention.kind, kv.retention.cap) == ((2, None, 8), 1, 4, "window", 104)
    assert (kv.leaves, tail.leaves, tail.start, tail.retention.cap) == (("k", "v"), ("tail",), ABSENT, 1)
    encode, decode = program.stages
    assert (encode.inputs[0].lower, encode.inputs[0].upper, encode.args) == (0, 32, ("phase",))
    assert decode.inputs[1].literals == (False, True)
    unit, chunk, turn = program.events
    assert (unit.choices[0].lower, unit.choices[0].upper) == (0, 6)
    assert (chunk.outputs, chunk.run, str(chunk.when)) == (("audio",), ("encode", "decode"), "buf >= 8")
    assert turn.reset and not turn.run
    assert program.queues[0].dtype == "int64"


def test_all_independent_errors_come_at_once_in_the_order_of_the_file() -> None:
    text = edited("25 Hz", "25 hz").replace("clock: token", "clock: tokn").replace("phase == 0", "fase == 0")
    text = text.replace("last: false]", "last: 3]").replace("reset: true", "reset: yes").replace("60 s", "60 x")
    error = refused(text)
    assert isinstance(error, ErrorList)
    places = [int((part.at or "").split(":")[1]) for part in error.errors]
    assert codes(error) == ["CAD1205", "CAD1301", "CAD1406", "CAD1310", "CAD1201", "CAD1205"]
    assert places == sorted(places)


def test_an_error_has_no_echo() -> None:
    """What one broken entry drags along is not reported again."""
    for old, new in [
        ("params: {P: 4}", "params: {P: Q}"),
        ("token: {counter: buf,", "token: {conter: buf,"),
        ("counters: {buf: 0,", "counters: {buf: x,"),
        ("clocks: {token: 25 Hz,", "clocks: {token: 25 hz,"),
        ("kv: {leaves: [k, v],", "kv: {leaves: k,"),
        ("outputs: [h]}", "outputs: h}"),
        ("options: {width: 8}", "options: {width: [8]}"),
        ("unit: {when: phase == 0,", "unit: {when: 'phase = 0',"),
    ]:
        assert len(codes(refused(edited(old, new)))) == 1, new


def test_a_misspelt_required_key_is_one_error() -> None:
    assert codes(refused(edited("model:", "modle:"))) == ["CAD1203"]
    assert codes(refused(edited("tail: {shape:", "tail: {shap:"))) == ["CAD1203"]


def test_an_expression_error_stands_at_its_column() -> None:
    assert (refused(edited("phase == 0", "phase = 0")).at or "") == "codec.yaml:16:22"
    assert (refused(edited("phase == 0", '"phase = 0"')).at or "") == "codec.yaml:16:23"
    assert (refused(edited("phase == 0", '"ph\\x61se = 0"')).at or "") == "codec.yaml:16:16"


def test_places_by_name() -> None:
    spec = parsed()
    assert spec.where("regions.kv") == "codec.yaml:10:3"
    assert spec.where("regions.kv.retain") == "codec.yaml:10:70"
    assert spec.where("stages.decode.inputs.last") == "codec.yaml:14:55"
    assert spec.where("regions.kv.nothing.at.all") == "codec.yaml:10:3"
    assert spec.where("nothing") == "codec.yaml"
    assert parsed(P="6").where("params.P") == "--set P:1:1"


# Overrides.


def test_overrides_by_name() -> None:
    assert parsed(P="6").program.regions[0].retention.cap == 106
    assert parsed(width="16").program.regions[0].shape == (2, None, 16)
    assert parsed(**{"regions.kv.start": "P - 1"}).program.regions[0].start == 3
    assert parsed(**{"params.P": "7"}).program.regions[0].start == 7
    assert parsed(horizon="6 events").program.horizon == Horizon("events", Fraction(6))
    assert parsed(horizon="").program.horizon is None
    assert parsed(**{"regions.kv.retain": "{ring: 4}"}).program.regions[0].retention.kind == "ring"
    weights = parsed(**{"model.weights": "{file: flow.safetensors}"}).model.weights
    assert weights == (WeightsFile("flow.safetensors"),)
    listed = '[{file: flow.pt, prefix: "flow."}, {file: hift.pt, sha256: ' + "a" * 64 + "}]"
    weights = parsed(**{"model.weights": listed}).model.weights
    assert weights == (WeightsFile("flow.pt", prefix="flow."), WeightsFile("hift.pt", "a" * 64))


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("Q", "1", "CAD1209"),
        ("regions.kx.start", "1", "CAD1209"),
        ("regions.kv.strat", "1", "CAD1203"),
        ("regions.kv.shape.2", "1", "CAD1209"),
        ("", "1", "CAD1209"),
        ("P", "012", "CAD1109"),
        ("P", "*x", "CAD1103"),
        ("P", "\0", "CAD1101"),
        ("P", "[1", "CAD1101"),
        ("P", "x", "CAD1406"),
        ("horizon", "60", "CAD1205"),
    ],
)
def test_wrong_overrides(name: str, value: str, code: str) -> None:
    error = refused(BASE, {name: value})
    assert codes(error) == [code] and (error.at or "").startswith(f"--set {name}:1:")


def test_errors_of_overrides_come_after_those_of_the_file() -> None:
    error = refused(edited("60 s", "60 x"), {"P": "x"})
    assert isinstance(error, ErrorList)
    assert [part.at for part in error.errors] == ["codec.yaml:25:10", "--set P:1:1"]


# Digests.


def test_the_digest_sees_meaning_and_not_layout() -> None:
    digest = parsed().sha256
    assert parsed(BASE.replace("P + 100", "P+100") + "\n# a comment\n").sha256 == digest
    reordered = edited("cadence: 40 ms\n", "").replace("params:", "cadence: 40 ms\nparams:")
    assert parsed(reordered).sha256 == digest
    assert parsed(edited("internal: true", "internal: true\n    reset: false")).sha256 == digest
    assert parsed(edited("cadence: 40 ms", "cadence: 1/25 s")).sha256 == digest
    assert parsed(P="4").sha256 == digest
    assert parsed(P="5").sha256 != digest
    assert parsed(edited("buf - 8", "buf - 7")).sha256 != digest


def test_the_digest_sees_the_order_of_events() -> None:
    turn = "  turn: {reset: true}\n"
    first = edited(turn, "").replace("events:\n", "events:\n" + turn)
    assert parsed(first).sha256 != parsed().sha256


def test_loading_from_a_path(tmp_path: Path) -> None:
    path = tmp_path / "codec.yaml"
    path.write_text(BASE)
    spec = load_spec(path, {"P": "5"})
    assert spec.path == str(path) and spec.sha256 == parsed(P="5").sha256


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ("3", "CAD1201: `weights` of `model` is not a weights file\n"
         "  expected: a mapping with the key `file`, or a list of such\n  got:      `3`\n"),
        ("[3]", "CAD1201: item 1 of `weights` of `model` is not a mapping\n"
         "  expected: a mapping with keys such as `file`, `prefix`, `sha256`\n  got:      `3`\n"),
        ("{prefix: a.}", "CAD1202: missing key `file` in `weights` of `model`\n"),
        ("{fil: a.pt}", "CAD1203: unknown key `fil` in `weights` of `model`\n"),
        ("[{file: a}, {file: b, prefixx: b.}]", "CAD1203: unknown key `prefixx` in item 2 of `weights` of `model`\n"),
    ],
)  # fmt: skip
def test_weights_that_do_not_read(weights: str, text: str) -> None:
    with pytest.raises(CadenceError) as caught:
        parsed(**{"model.weights": weights})
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ("null", None),
        ("{file: a.safetensors}", "a.safetensors"),
        ("[{file: a.safetensors}]", "a.safetensors"),
        ("{file: a.pt}", None),
        ("{file: a.safetensors.index.json}", None),
        ("{file: a.safetensors, prefix: a.}", None),
        ("[{file: a.safetensors}, {file: b.safetensors}]", None),
    ],
)
def test_the_weights_file_that_a_plan_can_name(weights: str, named: str | None) -> None:
    assert parsed(**{"model.weights": weights}).model.named_file == named
