"""A diff as JSON, schema `cadencec.diff/1`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cadence_runtime.errors import CadenceError
from cadencec.diff.compare import Diff, PartDiff
from cadencec.diff.facts import Facts
from cadencec.diff.gates import Verdict


def to_json(diff: Diff, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return a diff as plain JSON values; what one side does not have is null."""
    return {
        "kind": diff.before.kind,
        "differs": diff.differs,
        "before": _side(diff.before),
        "after": _side(diff.after),
        "measures": {m.name: {"before": m.before, "after": m.after, "unit": m.unit or None} for m in diff.measures},
        "parts": {part.name: _part(part) for part in diff.parts},
        "not_compared": list(diff.left_out),
        "gates": [asdict(verdict) for verdict in verdicts],
    }


def _side(facts: Facts) -> dict[str, Any]:
    return {
        "path": facts.path,
        "model": facts.model,
        "target": facts.target or None,
        "unread": list(facts.unread),
        "faults": [_fault(fault) for fault in facts.faults],
    }


def _fault(fault: CadenceError) -> dict[str, Any]:
    return {"code": fault.code, "what": fault.what, "expected": fault.expected, "got": fault.got, "at": fault.at}


def _part(part: PartDiff) -> dict[str, Any]:
    changes = [{"name": c.name, "kind": c.kind, "before": c.before, "after": c.after} for c in part.changes]
    return {"same": part.same, "changes": changes, "not_compared": part.why_not or None}
