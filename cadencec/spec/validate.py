"""Plain data -> Document. What does not read is reported and left out, so that the rest can still be checked."""

from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from cadence_runtime.errors import CadenceError, SpecError
from cadence_runtime.host.expression import ExpressionError
from cadencec.spec import schema
from cadencec.spec.report import Location, Report
from cadencec.spec.values import closest, one_of, shown, suggest

TABLES: dict[str, tuple[str, type[BaseModel] | None]] = {
    "numerics": ("numeric switch", None),
    "clocks": ("clock", None),
    "params": ("param", None),
    "counters": ("counter", schema.CounterDoc),
    "queues": ("queue", schema.QueueDoc),
    "regions": ("region", schema.RegionDoc),
    "stages": ("stage", schema.StageDoc),
    "events": ("event", schema.EventDoc),
}
"""What one entry of each table is called, and what it holds."""

_STAND_INS: dict[str, Any] = {
    "cadence_spec": schema.VERSION,
    "model": {"name": "unreadable", "entry": "unreadable:build"},
    "stages": {},
    "events": {},
}
"""What takes the place of a required section that does not read."""


def validate(data: Any, report: Report) -> schema.Document:
    """Return the document without what does not read, and report that."""
    # A section that is left out can bring up nothing new, so a second look passes; the loop is a guard all the same.
    for _ in range(len(schema.Document.model_fields)):
        try:
            return schema.Document.model_validate(data)
        except ValidationError as error:
            found = error.errors(include_url=False)
            written, echoes = data, _echoes(found)
            for details in found:
                location = _as_written(tuple(step for step in details["loc"] if step != "[key]"), written)
                if details["loc"] not in echoes:
                    is_key = details["type"] in {"missing", "extra_forbidden"} or "[key]" in details["loc"]
                    report.add(_translated(details, location), location, key=is_key)
                data = _without(data, location, report)
    report.raise_found()
    raise SpecError("CAD1201", "the spec cannot be read", at=report.places.path)


def _as_written(location: Location, data: Any) -> Location:
    """Return a location without the index of a weights file that is written alone, not in a list."""
    alone = location[:2] == ("model", "weights") and isinstance(data["model"]["weights"], dict)
    return location[:2] + location[3:] if alone else location


def _echoes(found: list[ErrorDetails]) -> set[Location]:
    """Return where errors only repeat others: values under a bad key, and missing keys that are misspelt."""
    bad = {details["loc"][:-1] for details in found if details["loc"][-1:] == ("[key]",)}
    unknown = [details["loc"] for details in found if details["type"] == "extra_forbidden"]
    meant = {(*loc[:-1], closest(str(loc[-1]), _model_at(loc[:-1]).model_fields)) for loc in unknown}
    return bad | {details["loc"] for details in found if details["type"] == "missing" and details["loc"] in meant}


def _without(data: Any, location: Location, report: Report) -> Any:
    """Return the document without the smallest part around a location that later passes can do without."""
    if not location or not isinstance(data, dict):
        report.unreadable |= {(section, "*") for section in schema.Document.model_fields}
        return dict(_STAND_INS)
    section = str(location[0])
    kept = {key: value for key, value in data.items() if key != section}
    table = data.get(section)
    if section in TABLES and len(location) > 1 and isinstance(table, dict):
        report.unreadable.add((section, str(location[1])))
        return kept | {section: {key: value for key, value in table.items() if key != location[1]}}
    report.unreadable.add((section, "*"))
    return kept | ({section: _STAND_INS[section]} if section in _STAND_INS else {})


def _translated(details: ErrorDetails, location: Location) -> CadenceError:
    """Return a pydantic error in our words."""
    kind, got = details["type"], shown(details["input"])
    if kind == "spec":
        return _ours(details["ctx"]["error"], location)
    if kind == "missing":
        return _missing(location)
    if kind == "extra_forbidden":
        return _unknown(location)
    if kind == "model_type":
        expected = f"a mapping with keys such as {one_of(_model_at(location).model_fields)}".replace("one of ", "")
    else:
        expected = {"list_type": "a list", "dict_type": "a mapping"}.get(kind, details["msg"].lower())
    what = "a list" if kind == "list_type" else "a mapping"
    return SpecError("CAD1201", f"{describe(location)} is not {what}", expected=expected, got=got)


def _ours(error: CadenceError, location: Location) -> CadenceError:
    """Return an error of a reader with what only its place in the document tells."""
    if error.code == "CAD1201":
        error.what = f"{describe(location)} is {error.what}"
    if isinstance(error, ExpressionError) and error.is_cut:
        # In `{tok: min(28, buf)}` YAML ends the value at the comma.
        error.hint = 'quote an expression that holds a comma: `"min(28, buf)"`'
    return error


def _missing(location: Location) -> SpecError:
    key, parent = str(location[-1]), location[:-1]
    field = _model_at(parent).model_fields[key]
    example = f"add `{key}: {field.examples[0]}`" if field.examples else None
    what = f"missing key `{key}` in {describe(parent)}"
    return SpecError("CAD1202", what, expected=field.description, hint=example)


def _unknown(location: Location) -> SpecError:
    key, parent = str(location[-1]), location[:-1]
    known = _model_at(parent).model_fields
    hint = "write the keys out; `<<` merges nothing here" if key == "<<" else suggest(key, known)
    what = f"unknown key {shown(key)} in {describe(parent)}"
    return SpecError("CAD1203", what, expected=one_of(known), got=shown(key), hint=hint)


def _model_at(location: Location) -> type[BaseModel]:
    """Return the model of the mapping at a location."""
    if not location:
        return schema.Document
    if location[0] == "model":
        return schema.ModelDoc if len(location) == 1 else schema.WeightsDoc
    entry = TABLES[str(location[0])][1]
    return schema.StageInputDoc if len(location) > 2 or entry is None else entry


def describe(location: Location) -> str:
    """Return a location in words: ``region `kv` ``, or `` `start` of region `kv` `` for a key of it."""
    if not location:
        return "the spec"
    section = str(location[0])
    steps = [f"`{step}`" if isinstance(step, str) else f"item {step + 1}" for step in reversed(location)]
    if section not in TABLES or len(location) == 1:
        return " of ".join(steps)
    return " of ".join([*steps[:-2], f"{TABLES[section][0]} {shown(location[1])}"])
