"""Two small programs: one hears chunks of sound, the other has a first unit of any length, units and a turn."""

import wave
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from cadence_runtime.host.expression import constant, parse
from cadence_runtime.host.program import Choice, Clock, Event, EventInput, Program, Stage, StageInput


def program(dtype: str, *events: Event) -> Program:
    x = StageInput("x", dtype)
    stage = Stage("step", (), (), (x,), ("y",))
    return Program((), (Clock("sample", Fraction(16_000)),), (), (), (), (stage,), events, None, None)


def chunk(name: str, samples: int, ticks: int) -> Event:
    sound = EventInput("x", (constant(1), constant(samples)))
    return Event(name, inputs=(sound,), advance=("sample", constant(ticks)), run=("step",))


@pytest.fixture
def hears() -> Program:
    return program("float32", chunk("chunk", 512, 512), Event("reset", reset=True))


@pytest.fixture
def units() -> Program:
    any_length = EventInput("x", (constant(1), parse("n")))
    first = Event("first", choices=(Choice("n", 0, 26),), inputs=(any_length,), run=("step",))
    pick = Event("pick", choices=(Choice("n", 0, 26),))
    unit = Event("unit", inputs=(EventInput("x", (constant(1), constant(25))),), run=("step",))
    return program("int64", first, pick, unit, Event("turn", reset=True), Event("inner", internal=True))


@pytest.fixture
def write_wav(tmp_path: Path) -> Callable[..., str]:
    def write(samples: object, rate_hz: int = 16_000, channels: int = 1, width: int = 2) -> str:
        path = tmp_path / "speech.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((channels, width, rate_hz, 0, "NONE", ""))
            file.writeframes(np.asarray(samples, f"<i{width}").tobytes())
        return str(path)

    return write
