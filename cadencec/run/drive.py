"""A plan, a file of inputs and a file for what comes out: the whole of `run`.

Nothing is written unless every push went through.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cadence_runtime import Policy, load
from cadence_runtime.errors import CadenceError, SessionError, UsageError
from cadence_runtime.format.replace import check_writable, replace_file
from cadence_runtime.host.program import Program
from cadence_runtime.session import LoadedPlan, Outputs
from cadencec.run.feed import Array, Feed, one_of
from cadencec.run.npz import read_npz
from cadencec.run.results import Result, encode, kind_of, output_names, sound_rate
from cadencec.run.wav import Tail, read_wav

SOURCES = (".wav", ".npz")


@dataclass(frozen=True, slots=True)
class Request:
    """What to run: a plan, a file to read and one to write. `weights` is the weights file, where it does not lie beside
    the plan; `policy` is a file of keys that both must be signed with. `event` and `tail` are for recordings that are
    read, `rate` (in Hz) for those that are written."""

    plan: str
    source: str
    target: str
    weights: str | None = None
    policy: str | None = None
    event: str | None = None
    tail: Tail = "pad"
    rate: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """What was run. `notes` are what a reader of the results should know."""

    pushes: int
    outputs: tuple[str, ...]
    target: str
    notes: tuple[str, ...]


def run_file(request: Request, progress: Callable[[str, int, int], None]) -> Summary:
    """Drive one session from a file and write what comes out."""
    kind = kind_of(request.target)
    check_writable(request.target)
    policy = Policy.of_file(request.policy) if request.policy else None
    with load(request.plan, weights=request.weights, policy=policy) as loaded:
        program = loaded.plan.program
        feed = read_feed(request, program)
        results = drive(loaded, feed, request.seed, progress)
    rate_hz = request.rate or sound_rate(program)
    replace_file(request.target, [encode(results, kind, rate_hz)])
    return Summary(len(results), output_names(results), request.target, feed.notes)


def read_feed(request: Request, program: Program) -> Feed:
    """Return the pushes of the file to read."""
    match Path(request.source).suffix.lower():
        case ".wav":
            return read_wav(request.source, program, request.event, request.tail)
        case ".npz":
            return read_npz(request.source, program)
        case suffix:
            raise UsageError(
                "CAD9107", "unknown kind of file", expected=one_of(SOURCES), got=f"`{suffix}`", at=request.source
            )


def drive(loaded: LoadedPlan, feed: Feed, seed: int, progress: Callable[[str, int, int], None]) -> list[Result]:
    """Push everything to a fresh session; an error says which push it was."""
    results = []
    with loaded.session(seed=seed) as session:
        for index, push in enumerate(feed.pushes):
            progress("replaying", index, len(feed.pushes))
            try:
                values: dict[str, Any] = dict(push.values)
                outputs = session.push(push.event, **values)
            except SessionError as refused:
                raise _at_push(refused, index) from None
            results.append(Result(push.event, as_arrays(outputs)))
    return results


def _at_push(refused: SessionError, index: int) -> CadenceError:
    return SessionError(
        refused.code, refused.what, expected=refused.expected, got=refused.got, at=f"push {index}", hint=refused.hint
    )


def as_arrays(outputs: Outputs) -> dict[str, list[Array]]:
    """Return the outputs of a push by name, each in the order in which it came out."""
    arrays: dict[str, list[Array]] = {}
    for record in outputs:
        for name, value in record.outputs.items():
            arrays.setdefault(name, []).append(as_array(name, value))
    return arrays


def as_array(name: str, value: Any) -> Array:
    """Return one output as a numpy array."""
    try:
        return np.asarray(value)
    except TypeError:
        got = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
        raise UsageError(
            "CAD9124", f"output `{name}` has a dtype that no file can hold", expected="a dtype of numpy", got=got
        ) from None


def render(summary: Summary) -> str:
    """Return the summary as a line of text."""
    return f"{summary.target}: {', '.join(summary.outputs) or 'no outputs'} of {summary.pushes} pushes"


def to_json(summary: Summary) -> dict[str, Any]:
    """Return the summary as an object."""
    rows: Sequence[str] = ("pushes", "outputs", "target", "notes")
    return {name: getattr(summary, name) for name in rows}
