"""What came out of a session, and the file that it is written to, whole or not at all.

out.npz    `speech` (426, 1, 1): one row for each time it came out, or `speech.0`, `speech.1`, ... by the push's
           index where shapes differ or not every push gives it; `events`
out.json   {"schema": "cadencec.run/1", "pushes": [{"event": "chunk", "outputs": {"speech": [[[0.5]]]}}, ...]}
out.wav    the one float output of a plan that makes sound, end to end, as 16-bit PCM (which rounds it)
"""

import io
import json
import math
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from cadence_runtime.errors import UsageError
from cadence_runtime.host.program import Program
from cadencec.run.feed import EVENTS, SLOWEST_SOUND_HZ, Array, one_of

SCHEMA = "cadencec.run/1"
FULL_SCALE = 32768


@dataclass(frozen=True, slots=True)
class Result:
    """What one push gave: for each output its arrays, in the order in which they came out."""

    event: str
    outputs: Mapping[str, Sequence[Array]]


def as_npz(results: Sequence[Result]) -> bytes:
    """Return the results as an .npz file."""
    arrays: dict[str, Array] = {EVENTS: np.array([result.event for result in results], dtype=np.str_)}
    for name in output_names(results):
        rows = [list(result.outputs.get(name, ())) for result in results]
        arrays |= stacked(name, rows) or numbered(name, rows)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def output_names(results: Sequence[Result]) -> tuple[str, ...]:
    """Return every output that some push gave, in order of appearance."""
    return tuple(dict.fromkeys(name for result in results for name in result.outputs))


def stacked(name: str, rows: list[list[Array]]) -> dict[str, Array]:
    """Return one array with a row for each time that the output came out, or nothing where shapes differ."""
    flat = [array for row in rows for array in row]
    forms = {(array.shape, array.dtype) for array in flat}
    is_once_each = all(len(row) <= 1 for row in rows)
    return {name: np.stack(flat)} if is_once_each and len(forms) == 1 else {}


def numbered(name: str, rows: list[list[Array]]) -> dict[str, Array]:
    """Return one array for each time that the output came out, named by its push (`y.3`, or `y.3.0`, `y.3.1`)."""
    return {
        f"{name}.{push}" if len(row) == 1 else f"{name}.{push}.{i}": array
        for push, row in enumerate(rows)
        for i, array in enumerate(row)
    }


def as_json(results: Sequence[Result]) -> bytes:
    """Return the results as JSON; every float has all of its bits, and what JSON cannot say stands as a string."""
    pushes = [{"event": result.event, "outputs": _lists(result.outputs)} for result in results]
    return (json.dumps({"schema": SCHEMA, "pushes": pushes}, allow_nan=False) + "\n").encode()


def _lists(outputs: Mapping[str, Sequence[Array]]) -> dict[str, list[Any]]:
    return {name: [_plain(array.tolist()) for array in arrays] for name, arrays in outputs.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return [value.real, value.imag] if isinstance(value, complex) else value


def as_wav(results: Sequence[Result], rate_hz: int | None) -> bytes:
    """Return the one output, end to end, as sound; raise `UsageError` where none or several come out, or no sound."""
    names = output_names(results)
    if len(names) != 1:
        raise UsageError("CAD9121", "a wav holds one output", expected="1 output", got=one_of(names))
    (name,) = names
    arrays = [array for result in results for array in result.outputs.get(name, ())]
    if not all(is_sound(array) for array in arrays):
        got = ", ".join(dict.fromkeys(f"{array.dtype} {list(array.shape)}" for array in arrays))
        hint = "write an .npz or a .json file"
        raise UsageError(
            "CAD9122", f"output `{name}` is no sound", expected="floats in one channel", got=got, hint=hint
        )
    if rate_hz is None:
        hint = "give it, such as `--rate 24000`"
        raise UsageError(
            "CAD9123",
            "the plan does not tell the sample rate of its output",
            expected="one clock of 8 kHz or more",
            hint=hint,
        )
    floats = np.concatenate([array.ravel() for array in arrays]).astype(np.float64)
    pcm = np.clip(np.rint(np.nan_to_num(floats) * FULL_SCALE), -FULL_SCALE, FULL_SCALE - 1).astype("<i2")
    return _wav_file(pcm, rate_hz)


def is_sound(array: Array) -> bool:
    """Return whether an array is a row of floats, whatever dims of one stand around it."""
    return array.dtype.kind == "f" and array.size != 1 and array.size == max(array.shape, default=1)


def sound_rate(program: Program) -> int | None:
    """Return the rate of the plan's one clock that is fast enough to count samples, or None."""
    rates = {clock.rate_hz for clock in program.clocks if clock.rate_hz >= SLOWEST_SOUND_HZ}
    (rate_hz,) = rates if len(rates) == 1 else (Fraction(0),)
    return int(rate_hz) if rate_hz and rate_hz.denominator == 1 else None


def _wav_file(pcm: Array, rate_hz: int) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, rate_hz, len(pcm), "NONE", "not compressed"))
        file.writeframes(pcm.tobytes())
    return buffer.getvalue()


SUFFIXES = (".npz", ".json", ".wav")


def kind_of(path: str) -> str:
    """Return the suffix that says how results are written; raise `UsageError` for another one."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError("CAD9107", "unknown kind of file", expected=one_of(SUFFIXES), got=f"`{suffix}`", at=path)
    return suffix


def encode(results: Sequence[Result], kind: str, rate_hz: int | None) -> bytes:
    """Return the bytes of a file of one kind; `rate_hz` is for sound."""
    match kind:
        case ".npz":
            return as_npz(results)
        case ".json":
            return as_json(results)
        case _:
            return as_wav(results, rate_hz)
