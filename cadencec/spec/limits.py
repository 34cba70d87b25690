"""What a plan can hold of a program: asked before any model is built, by the very schema that the plan is read with."""

from collections.abc import Callable
from typing import TypeVar

from cadence_runtime.errors import SpecError
from cadence_runtime.format.manifest import PROGRAM
from cadence_runtime.format.schema import TEXT, Codec, Mismatch
from cadence_runtime.host.program import Program
from cadencec.spec.report import Location, Report
from cadencec.spec.spec import Model
from cadencec.spec.validate import describe

T = TypeVar("T")

KEYS = {
    "choices": "choose", "lets": "let", "effects": "do", "retention": "retain", "literals": "inputs",
    "cadence_s": "cadence",
}  # fmt: skip
"""Fields of a program by their keys in a spec, where these differ."""


def check_fits(model: Model, program: Program, report: Report) -> None:
    """Report what of a spec no plan can hold: the first of each part."""
    _check(PROGRAM, program, report, lambda steps: _location(program, steps))
    _check(TEXT, model.entry, report, lambda _: ("model", "entry"))
    if model.named_file is not None:
        _check(TEXT, model.named_file, report, lambda _: ("model", "weights", "file"))


def _check(codec: Codec[T], value: T, report: Report, locate: Callable[[list[str]], Location]) -> None:
    try:
        codec.decode(codec.encode(value))
    except Mismatch as error:
        location = locate([step.strip(".[]") for step in reversed(error.path)])
        what = f"{describe(location)} does not fit into a plan"
        report.add(SpecError("CAD1313", what, expected=error.expected, got=error.got), location)


def _location(program: Program, steps: list[str]) -> Location:
    """Return where the spec says what stands at a path of the manifest: a table, maybe an entry, and a key of it."""
    table, *inner = steps
    if not inner or not inner[0].isdecimal():
        return (KEYS.get(table, table),)
    entry = getattr(program, table)[int(inner[0])]
    name = entry[0] if isinstance(entry, tuple) else entry.name
    keys = [KEYS.get(step, step) for step in inner[1:2] if not step.isdecimal()]
    return (table, name, *keys)
