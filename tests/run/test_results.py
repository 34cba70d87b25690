import io
import json
import wave
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from cadence_runtime.errors import UsageError
from cadence_runtime.host.program import Clock, Program
from cadencec.run.results import Result, as_json, as_npz, as_wav, kind_of, sound_rate


def results(*rows: tuple[str, dict[str, list[Any]]]) -> list[Result]:
    def arrays(values: list[Any]) -> list[Any]:
        return [np.asarray(value, np.float32) for value in values]

    return [Result(event, {k: arrays(v) for k, v in given.items()}) for event, given in rows]


def load(data: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(data)) as file:
        return {name: file[name] for name in file.files}


def test_npz_stacks_what_has_one_shape() -> None:
    arrays = load(as_npz(results(("a", {"y": [[1.0, 2.0]]}), ("b", {}), ("a", {"y": [[3.0, 4.0]]}))))
    assert arrays["events"].tolist() == ["a", "b", "a"]
    assert arrays["y"].tolist() == [[1.0, 2.0], [3.0, 4.0]] and arrays["y"].dtype == np.float32


def test_npz_numbers_what_differs_in_shape_or_comes_out_twice() -> None:
    arrays = load(as_npz(results(("a", {"y": [[1.0]]}), ("a", {"y": [[3.0, 4.0], [5.0]]}))))
    assert {name: array.tolist() for name, array in arrays.items() if name != "events"} == {
        "y.0": [1.0],
        "y.1.0": [3.0, 4.0],
        "y.1.1": [5.0],
    }


def test_npz_is_the_same_file_each_time_and_keeps_every_bit() -> None:
    odd = np.array([0x7FC00001, 0x80000000, 1], np.uint32).view(np.float32)
    rows = [Result("a", {"y": [odd]})]
    assert as_npz(rows) == as_npz(rows)
    assert load(as_npz(rows))["y"][0].tobytes() == odd.tobytes()


def test_json_keeps_every_bit_of_a_float() -> None:
    value = np.float32(0.1)
    document = json.loads(as_json(results(("a", {"y": [[value]]}))))
    assert document["schema"] == "cadencec.run/1"
    assert np.float32(document["pushes"][0]["outputs"]["y"][0][0]) == value


def test_json_says_what_is_no_number_as_text() -> None:
    document = json.loads(as_json([Result("a", {"y": [np.array([np.nan, np.inf, -np.inf])], "z": [np.array(1 + 2j)]})]))
    assert document["pushes"] == [{"event": "a", "outputs": {"y": [["nan", "inf", "-inf"]], "z": [[1.0, 2.0]]}}]


def test_wav_puts_chunks_end_to_end() -> None:
    quiet, loud = np.full((1, 2000), 0.5), np.full((1, 2000), 1.5)
    data = as_wav(results(("a", {"y": [quiet]}), ("a", {"y": [loud]})), 8000)
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (8000, 1, 2)
        samples = np.frombuffer(file.readframes(4000), "<i2")
    assert samples[0] == 16384 and samples[-1] == 32767 and len(samples) == 4000


@pytest.mark.parametrize(("rates", "rate_hz"), [((16_000, 50), 16_000), ((50,), None), ((24_000, 16_000), None)])
def test_the_one_fast_clock_counts_samples(hears: Program, rates: tuple[int, ...], rate_hz: int | None) -> None:
    clocks = tuple(Clock(f"c{rate}", Fraction(rate)) for rate in rates)
    assert sound_rate(replace(hears, clocks=clocks)) == rate_hz


def test_cad9121_a_wav_holds_one_output() -> None:
    with pytest.raises(UsageError) as failure:
        as_wav(results(("a", {"y": [[1.0]], "z": [[1.0]]})), 8000)
    assert str(failure.value) == ("CAD9121: a wav holds one output\n  expected: 1 output\n  got:      one of `y`, `z`")


def test_cad9122_an_output_that_is_no_sound() -> None:
    with pytest.raises(UsageError) as failure:
        as_wav(results(("a", {"speech": [[[0.5]]]})), 16_000)
    assert str(failure.value) == (
        "CAD9122: output `speech` is no sound\n"
        "  expected: floats in one channel\n"
        "  got:      float32 [1, 1]\n"
        "  hint:     write an .npz or a .json file"
    )


def test_cad9123_a_plan_that_does_not_tell_the_rate() -> None:
    with pytest.raises(UsageError) as failure:
        as_wav(results(("a", {"y": [[0.5, 0.5]]})), None)
    assert str(failure.value) == (
        "CAD9123: the plan does not tell the sample rate of its output\n"
        "  expected: one clock of 8 kHz or more\n"
        "  hint:     give it, such as `--rate 24000`"
    )


def test_cad9107_an_unknown_kind_of_file() -> None:
    with pytest.raises(UsageError) as failure:
        kind_of("out.mp3")
    assert str(failure.value) == (
        "CAD9107: unknown kind of file\n"
        "  expected: one of `.npz`, `.json`, `.wav`\n"
        "  got:      `.mp3`\n"
        "  at:       out.mp3"
    )
