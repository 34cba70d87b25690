"""Named arrays as a feed: any events of a plan with any tensors.

events  ["first", "unit", "unit", "turn"]     one push each; may be left out where only one event takes tensors
token   (3, 1, 25)                            row i goes to the i-th push that takes `token`, or
token.0 (1, 7)  token.1 (1, 25)  ...          one array a push, by the push's index, where shapes differ
n       (2,)                                  numbers that an event lets its caller choose, likewise
"""

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from cadence_runtime.errors import UsageError
from cadence_runtime.format.source import require_end
from cadence_runtime.host.program import Event, Program
from cadencec.run.feed import EVENTS, Array, Feed, Push, external_events, one_of, tensor_inputs


def read_npz(path: str, program: Program) -> Feed:
    """Return the pushes of the file; raise `UsageError` where its arrays do not say what each push takes."""
    arrays = load_arrays(path)
    names = {event.name: takes(event) for event in external_events(program)}
    events = pushed_events(arrays, names, path)
    rows = {
        name: [i for i, event in enumerate(events) if name in names.get(event, ())]
        for name in sorted(set(all_names(names)))
    }
    _check_known(arrays, rows, path)
    values: list[dict[str, Array | int]] = [{} for _ in events]
    for name, pushes in rows.items():
        for push, array in zip(pushes, rows_of(arrays, name, pushes, path), strict=True):
            values[push][name] = array
    return Feed(tuple(Push(event, given) for event, given in zip(events, values, strict=True)))


def load_arrays(path: str) -> dict[str, Array]:
    """Return every array of an .npz file; pickled objects are refused."""
    require_end(path)
    with Path(path).open("rb") as stream:
        try:
            return _named_arrays(stream)
        except Exception as broken:  # a damaged zip makes its reader raise nearly anything
            got = (str(broken) or type(broken).__name__).splitlines()[0].lower()
            hint = "write it with `numpy.savez`"
            raise UsageError(
                "CAD9111", "not an npz file of plain arrays", expected="named arrays", got=got, at=path, hint=hint
            ) from None


def _named_arrays(stream: BinaryIO) -> dict[str, Array]:
    file = np.load(stream, allow_pickle=False)
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise ValueError("one array without a name")
    return {name: file[name] for name in file.files}


def takes(event: Event) -> tuple[str, ...]:
    """Return the names that a push of the event takes: its tensors, and choices that no tensor's shape tells."""
    told = {name for item in event.inputs for size in item.shape for name in size.names}
    return (*tensor_inputs(event), *(choice.name for choice in event.choices if choice.name not in told))


def all_names(names: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return every name that some event takes."""
    return tuple(name for taken in names.values() for name in taken)


def pushed_events(arrays: Mapping[str, Array], names: Mapping[str, tuple[str, ...]], path: str) -> list[str]:
    """Return the event of each push."""
    if EVENTS in arrays:
        return _listed_events(arrays[EVENTS], names, path)
    with_inputs = tuple(event for event, taken in names.items() if taken)
    if len(with_inputs) != 1:
        raise UsageError(
            "CAD9112", f"the file has no array `{EVENTS}`", expected="the event of each push, as strings", at=path,
            hint=f"events that take inputs: {', '.join(f'`{name}`' for name in with_inputs) or 'none'}",
        )  # fmt: skip
    (event,) = with_inputs
    first = names[event][0]
    stacked = arrays.get(first)
    numbered = sum(name.rpartition(".")[0] == first for name in arrays)
    return [event] * (len(stacked) if stacked is not None and stacked.ndim else numbered)


def _listed_events(array: Array, names: Mapping[str, tuple[str, ...]], path: str) -> list[str]:
    if array.ndim != 1 or array.dtype.kind != "U":
        got = f"{array.dtype} of {array.ndim} dims"
        raise UsageError("CAD9112", f"`{EVENTS}` does not list events", expected="a row of strings", got=got, at=path)
    return [str(event) for event in array]


def rows_of(arrays: Mapping[str, Array], name: str, pushes: list[int], path: str) -> list[Array]:
    """Return the array of each push that takes `name`: rows of one array, or one array a push."""
    if name in arrays:
        stacked = arrays[name]
        if stacked.ndim == 0 or len(stacked) != len(pushes):
            got = f"{len(stacked)}" if stacked.ndim else "a single value"
            raise UsageError(
                "CAD9113", f"`{name}` has not one row for each push", expected=f"{len(pushes)} rows", got=got, at=path
            )
        return list(stacked)
    missing = [f"{name}.{push}" for push in pushes if f"{name}.{push}" not in arrays]
    if missing:
        raise UsageError(
            "CAD9113",
            f"push {missing[0].rpartition('.')[2]} lacks its `{name}`",
            expected=f"`{name}` with {len(pushes)} rows, or `{missing[0]}`",
            got=one_of(tuple(sorted(arrays))),
            at=path,
        )
    return [arrays[f"{name}.{push}"] for push in pushes]


def _check_known(arrays: Mapping[str, Array], rows: Mapping[str, list[int]], path: str) -> None:
    known = {EVENTS, *rows, *(f"{name}.{push}" for name, pushes in rows.items() for push in pushes)}
    for name in sorted(arrays.keys() - known):
        raise UsageError(
            "CAD9114", f"no push takes `{name}`", expected=one_of((EVENTS, *sorted(rows))), got=f"`{name}`", at=path
        )
