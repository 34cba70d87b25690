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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from cadence_runtime.errors import UsageError
from cadencec.run.feed import EVENTS, Array, one_of

SCHEMA = "cadencec.run/1"
FULL_SCALE = 32768


@dataclass(frozen=True, slots=True)
class Result:
    """What one push gave: for each output its arrays, in the order in which they came out. `duration_s` is how far
    the push moved the session's clocks."""

    event: str
    outputs: Mapping[str, Sequence[Array]]
    duration_s: Fraction = Fraction(0)


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


def as_wav(results: Sequence[Result]) -> bytes:
    """Return the one output that is sound, end to end; raise `UsageError` where none or several are."""
    names = output_names(results)
    if len(names) != 1:
        raise UsageError("CAD9121", "not one output, as a wav needs", expected="1 output", got=one_of(names))
    (name,) = names
    arrays = [array for result in results for array in result.outputs.get(name, ())]
    samples, duration_s = sum(array.size for array in arrays), sum(result.duration_s for result in results)
    rate_hz = Fraction(samples) / duration_s if duration_s else Fraction(0)
    if rate_hz.denominator != 1 or rate_hz < 1000 or any(array.size != max(array.shape, default=0) for array in arrays):
        raise UsageError(
            "CAD9122",
            f"output `{name}` is not sound",
            expected="one channel, with a whole number of samples a second",
            got=f"{samples} values in {float(duration_s):g} s",
            hint="write an .npz or a .json file",
        )
    floats = np.concatenate([array.ravel() for array in arrays]).astype(np.float64)
    pcm = np.clip(np.rint(np.nan_to_num(floats) * FULL_SCALE), -FULL_SCALE, FULL_SCALE - 1).astype("<i2")
    return _wav_file(pcm, int(rate_hz))


def _wav_file(pcm: Array, rate_hz: int) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, rate_hz, len(pcm), "NONE", "not compressed"))
        file.writeframes(pcm.tobytes())
    return buffer.getvalue()


WRITERS: dict[str, Callable[[Sequence[Result]], bytes]] = {".npz": as_npz, ".json": as_json, ".wav": as_wav}


def writer_for(path: str) -> Callable[[Sequence[Result]], bytes]:
    """Return what turns results into the bytes of such a file; raise `UsageError` for another kind of file."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS:
        raise UsageError("CAD9107", "unknown kind of file", expected=one_of(tuple(WRITERS)), got=f"`{suffix}`", at=path)
    return WRITERS[suffix]
