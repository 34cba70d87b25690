"""A recording as a feed: one event for each chunk of samples.

    samples   |<- 512 ->|<- 512 ->|<- 129 ->|        event `chunk` advances its clock by 512 ticks of 16 kHz and takes
    pushes      chunk     chunk     the tail         x (1, 512): the recording must have 16,000 samples a second

A file is 16-bit PCM with one channel; a sample s becomes s / 32768 where the plan wants floats.
"""

import wave
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal as OneOf

import numpy as np

from cadence_runtime.errors import UsageError
from cadence_runtime.format.source import require_end
from cadence_runtime.host.program import Event, Program
from cadencec.run.feed import SLOWEST_SOUND_HZ, Array, Feed, Push, external_events, one_of, stage_input, tensor_inputs

Tail = OneOf["pad", "drop", "refuse"]
FULL_SCALE = 32768
DTYPES = {"float32": np.float32, "float64": np.float64, "int16": np.int16}


@dataclass(frozen=True, slots=True)
class Port:
    """An event that takes sound: its one tensor `name` has the given sizes and holds `samples` of them."""

    event: str
    name: str
    dtype: str
    sizes: tuple[int, ...]
    samples: int
    rate_hz: Fraction


def read_wav(path: str, program: Program, event: str | None = None, tail: Tail = "pad") -> Feed:
    """Return the recording as pushes of the event that takes sound (`event`, where there are several).

    Raise `UsageError` for a file that is no such recording, and for a plan that takes none.
    """
    port = find_port(program, event)
    samples = read_samples(path, port.rate_hz)
    samples, notes = with_tail(samples, port.samples, tail, path)
    if port.dtype != "int16":
        samples = samples.astype(DTYPES[port.dtype]) / DTYPES[port.dtype](FULL_SCALE)
    chunks = samples.reshape(-1, *port.sizes)
    return Feed(tuple(Push(port.event, {port.name: chunk}) for chunk in chunks), notes)


def find_port(program: Program, event: str | None) -> Port:
    """Return the one event that takes sound, or the named one."""
    ports = {e.name: port for e in external_events(program) if (port := as_port(program, e))}
    if event is None and len(ports) == 1:
        return next(iter(ports.values()))
    if event in ports:
        return ports[event]
    if event is not None or not ports:
        raise UsageError(
            "CAD9104",
            f"event `{event}` takes no sound" if event else "no event of this plan takes sound",
            expected=f"{one_of(tuple(ports))}" if ports else "an event with one tensor of a fixed number of samples",
            got=f"`{event}`" if event else one_of(tuple(e.name for e in external_events(program))),
            hint="give the inputs as an .npz file",
        )
    hint = f"choose one, such as `--event {next(iter(ports))}`"
    raise UsageError("CAD9105", "several events of this plan take sound", expected=one_of(tuple(ports)), hint=hint)


def as_port(program: Program, event: Event) -> Port | None:
    """Return the event as a port, or None if its input is not a run of samples that lasts a whole time."""
    names = tensor_inputs(event)
    if len(names) != 1 or len(event.inputs) != 1 or event.advance is None or event.choices or event.lets:
        return None
    described, env = stage_input(program, names[0]), dict(program.params)
    known = {name for expression in (*event.inputs[0].shape, event.advance[1]) for name in expression.names}
    if described is None or described.dtype not in DTYPES or not known <= env.keys():
        return None
    sizes = tuple(size.evaluate(env) for size in event.inputs[0].shape)
    clock = next(clock for clock in program.clocks if clock.name == event.advance[0])
    ticks, samples = event.advance[1].evaluate(env), max(sizes, default=0)
    if ticks < 1 or samples < 2 or any(size != 1 for size in sizes if size != samples) or sizes.count(samples) != 1:
        return None
    rate_hz = samples * clock.rate_hz / ticks
    return Port(event.name, names[0], described.dtype, sizes, samples, rate_hz) if rate_hz >= SLOWEST_SOUND_HZ else None


def read_samples(path: str, rate_hz: Fraction) -> Array:
    """Return the samples as int16."""
    require_end(path)
    try:
        with Path(path).open("rb") as stream, wave.open(stream) as file:
            _check_form(file, path, rate_hz)
            count = file.getnframes()
            data = file.readframes(count)
    except (wave.Error, EOFError) as broken:
        raise UsageError(
            "CAD9101", "not a wav file", expected="16-bit PCM in RIFF", got=str(broken) or "it ends early", at=path
        ) from None
    if len(data) != 2 * count or count == 0:
        got = f"{len(data) // 2} of {count} samples" if count else "no samples"
        raise UsageError("CAD9101", "the wav file is cut short", expected="all of its samples", got=got, at=path)
    return np.frombuffer(data, "<i2").astype(np.int16)


def _check_form(file: wave.Wave_read, path: str, rate_hz: Fraction) -> None:
    if (file.getnchannels(), file.getsampwidth()) != (1, 2):
        got = f"{8 * file.getsampwidth()} bits and {file.getnchannels()} channels"
        hint = f"convert it: `sox {Path(path).name} -b 16 -c 1 mono.wav`"
        raise UsageError(
            "CAD9102", "the recording has another form", expected="16 bits and 1 channel", got=got, at=path, hint=hint
        )
    if file.getframerate() != rate_hz:
        raise UsageError(
            "CAD9103",
            "the recording has another sample rate than the plan's clock",
            expected=f"{rate_hz} Hz",
            got=f"{file.getframerate()} Hz",
            at=path,
            hint=f"resample it: `sox {Path(path).name} -r {rate_hz} resampled.wav`",
        )


def with_tail(samples: Array, chunk: int, tail: Tail, path: str) -> tuple[Array, tuple[str, ...]]:
    """Return whole chunks, and a note on what became of the samples that fill none."""
    left = len(samples) % chunk
    if left == 0:
        return samples, ()
    if tail == "refuse":
        hint = "`--tail pad` fills it with zeros, `--tail drop` leaves it out"
        raise UsageError(
            "CAD9106", "the last chunk is not full", expected=f"{chunk} samples", got=str(left), at=path, hint=hint
        )
    if tail == "drop":
        return samples[: len(samples) - left], (f"the last {left} samples fill no chunk of {chunk}: left out",)
    return np.pad(samples, (0, chunk - left)), (f"the last chunk has {left} of {chunk} samples: filled with zeros",)
