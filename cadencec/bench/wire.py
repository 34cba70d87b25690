"""What goes through the pipes between a bench and its processes: lines of JSON, and errors in them."""

import json
from collections.abc import Mapping
from typing import Any

from cadence_runtime import errors
from cadence_runtime.errors import CadenceError, ErrorList, raise_all

PARTS = ("code", "what", "expected", "got", "at", "hint")


def to_line(body: Mapping[str, Any]) -> str:
    """Return an object as one line, without its end."""
    return json.dumps(body)


def from_line(line: str) -> dict[str, Any]:
    """Return the object of a line."""
    found: dict[str, Any] = json.loads(line)
    return found


def told(error: CadenceError) -> dict[str, Any]:
    """Return an error as an object."""
    found = error.errors if isinstance(error, ErrorList) else (error,)
    return {"errors": [{"kind": type(each).__name__} | {p: getattr(each, p) for p in PARTS} for each in found]}


def raise_told(body: Mapping[str, Any]) -> None:
    """Raise the error that an object tells; return where it tells none."""
    raise_all(_error(row) for row in body.get("errors", ()))


def _error(row: Mapping[str, Any]) -> CadenceError:
    kind = getattr(errors, row["kind"], CadenceError)
    made: CadenceError = kind(row["code"], row["what"], **{part: row[part] for part in PARTS[2:]})
    return made
