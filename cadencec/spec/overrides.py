"""`--set name=value`: one value of the document, replaced before it is validated."""

from typing import Any

from cadence_runtime.errors import SpecError
from cadencec.spec.report import Location, Report
from cadencec.spec.schema import Document
from cadencec.spec.source import compose_value, plain
from cadencec.spec.values import one_of, suggest


def apply_override(data: Any, name: str, text: str, report: Report) -> None:
    """Set a value of the document in place; `name` is a param, an option of the model, or a dotted name."""
    origin = f"--set {name}"
    try:
        node, errors = compose_value(text, origin)
        location = _settable(data, name, origin)
    except SpecError as error:
        report.add_placed([error])
        return
    report.add_placed(errors)
    target = data
    for step in location[:-1]:
        target = target[step]
    target[location[-1]] = plain(node)
    report.places.replace(location, node, origin)


def _settable(data: Any, name: str, origin: str) -> Location:
    tables: dict[Location, dict[str, Any]] = {
        ("params",): _table(data, "params"),
        ("model", "options"): _table(data, "model", "options"),
    }
    for place, table in tables.items():
        if name in table:
            return (*place, name)
    location = _walk(data, name.split("."))
    if location:
        return location
    known = {key for table in tables.values() for key in table} | set(Document.model_fields)
    what = f"`{name}` names nothing to set"
    raise SpecError("CAD1209", what, expected=one_of(known), at=f"{origin}:1:1", hint=suggest(name, known))


def _table(data: Any, *steps: str) -> dict[str, Any]:
    for step in steps:
        data = data.get(step) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _walk(data: Any, words: list[str]) -> Location:
    """Return the location of a dotted name whose steps may hold dots themselves; only its last step may be new."""
    location: Location = ()
    while words:
        if not isinstance(data, dict):
            return ()
        sizes = range(len(words), 0, -1)
        step = next((key for size in sizes if (key := ".".join(words[:size])) in data), None)
        if step is None:
            is_new = len(words) == 1 and (location or words[0] in Document.model_fields)
            return (*location, words[0]) if is_new else ()
        location, data, words = (*location, step), data[step], words[step.count(".") + 1 :]
    return location
