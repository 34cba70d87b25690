import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cadence_runtime.errors import UsageError
from cadence_runtime.host.expression import parse
from cadence_runtime.host.program import Choice, Event, EventInput, Program
from cadencec.run.wav import Port, as_port, find_port, read_wav
from tests.run.conftest import chunk, program

N = parse("n")
WriteWav = Callable[..., str]


def test_a_recording_becomes_one_push_a_chunk(hears: Program, write_wav: WriteWav) -> None:
    samples = np.arange(-1024, 1024, dtype=np.int16) * 16
    feed = read_wav(write_wav(samples), hears)
    assert [push.event for push in feed.pushes] == ["chunk"] * 4
    assert all(push.values["x"].shape == (1, 512) and push.values["x"].dtype == np.float32 for push in feed.pushes)
    heard = np.concatenate([push.values["x"].ravel() for push in feed.pushes])
    assert np.array_equal(heard, samples.astype(np.float64) / 32768)
    assert feed.notes == ()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(count=st.integers(1, 2000))
def test_no_sample_is_lost_or_moved(hears: Program, write_wav: WriteWav, count: int) -> None:
    samples = (np.arange(count) * 7919 % 65536 - 32768).astype(np.int16)
    path, want = write_wav(samples), samples.astype(np.float32) / 32768
    padded, dropped = read_wav(path, hears, tail="pad"), read_wav(path, hears, tail="drop")
    whole = np.concatenate([push.values["x"].ravel() for push in padded.pushes])
    assert np.array_equal(whole[:count], want) and not whole[count:].any() and len(whole) - count < 512
    assert len(dropped.pushes) == count // 512
    assert (padded.notes == ()) == (dropped.notes == ()) == (count % 512 == 0)


def test_notes_say_what_became_of_the_tail(hears: Program, write_wav: WriteWav) -> None:
    path = write_wav(np.zeros(513))
    assert read_wav(path, hears, tail="pad").notes == ("the last chunk has 1 of 512 samples: filled with zeros",)
    assert read_wav(path, hears, tail="drop").notes == ("the last 1 samples fill no chunk of 512: left out",)


def test_integer_samples_stay_integers(write_wav: WriteWav) -> None:
    feed = read_wav(write_wav([-32768, 0, 1, 32767]), program("int16", chunk("chunk", 4, 4)))
    assert feed.pushes[0].values["x"].dtype == np.int16
    assert feed.pushes[0].values["x"].tolist() == [[-32768, 0, 1, 32767]]


def test_the_rate_follows_from_how_long_an_event_lasts() -> None:
    # 480 samples while the 16 kHz clock moves 320 ticks (20 ms): 24 kHz.
    event = chunk("chunk", 480, 320)
    assert as_port(program("float32", event), event) == Port("chunk", "x", "float32", (1, 480), 480, Fraction(24_000))


@pytest.mark.parametrize(
    "event",
    [
        Event("no_advance", inputs=(EventInput("x", (parse("512"),)),)),
        Event("no_inputs", advance=("sample", parse("512"))),
        Event("two_inputs", inputs=(EventInput("x", (parse("4"),)),) * 2, advance=("sample", parse("4"))),
        Event("literal", inputs=(EventInput("x", literal=True),), advance=("sample", parse("4"))),
        Event("matrix", inputs=(EventInput("x", (parse("4"), parse("4"))),), advance=("sample", parse("4"))),
        Event("slow", inputs=(EventInput("x", (parse("4"),)),), advance=("sample", parse("16"))),
        Event("still", inputs=(EventInput("x", (parse("4"),)),), advance=("sample", parse("0"))),
        Event("free", choices=(Choice("n", 1, 9),), inputs=(EventInput("x", (parse("n"),)),), advance=("sample", N)),
    ],
    ids=lambda event: event.name,
)
def test_such_an_event_takes_no_sound(event: Event) -> None:
    assert as_port(program("float32", event), event) is None


def test_cad9101_not_a_wav_file(hears: Program, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"OggS" + bytes(100))
    with pytest.raises(UsageError) as failure:
        read_wav(str(path), hears)
    assert str(failure.value) == (
        "CAD9101: not a wav file\n"
        "  expected: 16-bit PCM in RIFF\n"
        "  got:      file does not start with RIFF id\n"
        f"  at:       {path}"
    )


def test_cad9101_a_wav_file_that_is_cut_short(hears: Program, write_wav: WriteWav) -> None:
    path = Path(write_wav(np.ones(1000)))
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError, match="CAD9101"):
            read_wav(str(path), hears)


def test_cad9101_a_header_that_promises_far_more_than_there_is(hears: Program, write_wav: WriteWav) -> None:
    path = Path(write_wav(np.ones(1000)))
    data = bytearray(path.read_bytes())
    data[40:44] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(data)
    with pytest.raises(UsageError, match="1000 of 2147483647 samples"):
        read_wav(str(path), hears)


def test_cad9102_channels_and_width(hears: Program, write_wav: WriteWav) -> None:
    path = write_wav(np.zeros(2048), channels=2)
    with pytest.raises(UsageError) as failure:
        read_wav(path, hears)
    assert str(failure.value) == (
        "CAD9102: the recording has another form\n"
        "  expected: 16 bits and 1 channel\n"
        "  got:      16 bits and 2 channels\n"
        f"  at:       {path}\n"
        "  hint:     convert it: `sox speech.wav -b 16 -c 1 mono.wav`"
    )
    with pytest.raises(UsageError, match="32 bits and 1 channels"):
        read_wav(write_wav(np.zeros(2048), width=4), hears)


def test_cad9103_another_rate(hears: Program, write_wav: WriteWav) -> None:
    path = write_wav(np.zeros(2048), rate_hz=44_100)
    with pytest.raises(UsageError) as failure:
        read_wav(path, hears)
    assert str(failure.value) == (
        "CAD9103: the recording has another sample rate than the plan's clock\n"
        "  expected: 16000 Hz\n"
        "  got:      44100 Hz\n"
        f"  at:       {path}\n"
        "  hint:     resample it: `sox speech.wav -r 16000 resampled.wav`"
    )


def test_cad9104_a_plan_that_takes_no_sound(units: Program) -> None:
    with pytest.raises(UsageError) as failure:
        find_port(units, None)
    assert str(failure.value) == (
        "CAD9104: no event of this plan takes sound\n"
        "  expected: an event with one tensor of a fixed number of samples\n"
        "  got:      one of `first`, `pick`, `unit`, `turn`\n"
        "  hint:     give the inputs as an .npz file"
    )


def test_cad9104_an_event_that_takes_no_sound(hears: Program) -> None:
    with pytest.raises(UsageError) as failure:
        find_port(hears, "reset")
    assert str(failure.value) == (
        "CAD9104: event `reset` takes no sound\n"
        "  expected: `chunk`\n"
        "  got:      `reset`\n"
        "  hint:     give the inputs as an .npz file"
    )


def test_cad9105_several_events_that_take_sound() -> None:
    both = program("float32", chunk("short", 256, 256), chunk("long", 512, 512))
    with pytest.raises(UsageError) as failure:
        find_port(both, None)
    assert str(failure.value) == (
        "CAD9105: several events of this plan take sound\n"
        "  expected: one of `short`, `long`\n"
        "  hint:     choose one, such as `--event short`"
    )
    assert find_port(both, "long").samples == 512


def test_cad9106_a_tail_that_is_refused(hears: Program, write_wav: WriteWav) -> None:
    path = write_wav(np.zeros(700))
    with pytest.raises(UsageError) as failure:
        read_wav(path, hears, tail="refuse")
    assert str(failure.value) == (
        "CAD9106: the last chunk is not full\n"
        "  expected: 512 samples\n"
        "  got:      188\n"
        f"  at:       {path}\n"
        "  hint:     `--tail pad` fills it with zeros, `--tail drop` leaves it out"
    )
