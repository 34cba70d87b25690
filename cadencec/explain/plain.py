"""An explanation as JSON, schema `cadencec.explain/1`. Rationals are text (`1/50`); bytes and lengths integers."""

from typing import Any

from cadencec.explain.explanation import EventLine, Explanation, Path, Push, RegionLine, StageLine
from cadencec.timeline.levers import Lever


def to_json(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as plain JSON values; what is not proven is null."""
    problem = explanation.problem
    return {
        "model": explanation.model,
        "spec": explanation.spec,
        "clocks": [{"name": name, "rate_hz": str(rate)} for name, rate in explanation.clocks],
        "cadence_s": None if explanation.cadence_s is None else str(explanation.cadence_s),
        "horizon": explanation.horizon,
        "configurations": explanation.configurations,
        "at_rest": explanation.at_rest,
        "transitions": explanation.transitions,
        "keys": explanation.size.keys if explanation.size else None,
        "demand_bytes": explanation.size.size_bytes if explanation.size else None,
        "regions": [_region(region) for region in explanation.regions],
        "stages": [_stage(stage) for stage in explanation.stages],
        "events": [_event(event) for event in explanation.events],
        "path": _path(explanation.path) if explanation.path else None,
        "notes": [{"code": n.code, "what": n.what, "at": n.at, "hint": n.hint} for n in explanation.notes],
        "levers": [_lever(lever) for lever in explanation.levers],
        "problem": None
        if problem is None
        else {
            "code": problem.code,
            "what": problem.what,
            "expected": problem.expected,
            "got": problem.got,
            "at": problem.at,
            "hint": problem.hint,
        },
    }


def _region(region: RegionLine) -> dict[str, Any]:
    return {
        "name": region.name,
        "leaves": list(region.leaves),
        "dtype": region.dtype,
        "shape": ["t" if size is None else size for size in region.shape],
        "clock": region.clock,
        "start": region.start if region.start >= 0 else None,
        "retention": region.retention,
        "read_by": list(region.read_by),
        "written_by": list(region.written_by),
        "length": region.length,
        "demand_bytes": region.size_bytes,
        "stock_bytes": region.stock_bytes,
    }


def _stage(stage: StageLine) -> dict[str, Any]:
    return {
        "name": stage.name,
        "reads": list(stage.reads),
        "writes": list(stage.writes),
        "args": list(stage.args),
        "repeat": {"index": stage.repeat[0], "count": stage.repeat[1]} if stage.repeat else None,
        "after": list(stage.after),
        "keys": stage.keys,
    }


def _event(event: EventLine) -> dict[str, Any]:
    return {
        "name": event.name,
        "internal": event.internal,
        "when": event.when,
        "choices": list(event.choices),
        "runs": list(event.runs),
        "resets": event.resets,
        "pushes": event.pushes,
    }


def _path(path: Path) -> dict[str, Any]:
    return {
        "entry": [_push(push) for push in path.entry],
        "round": [_push(push) for push in path.round],
        "seconds": str(path.seconds),
    }


def _push(push: Push) -> dict[str, Any]:
    keys = [{"stage": k.stage, "args": list(k.args), "lengths": list(k.lengths)} for k in push.keys]
    return {"event": push.event, "choices": list(push.choices), "keys": keys}


def _lever(lever: Lever) -> dict[str, Any]:
    return {
        "edit": lever.edit,
        "subject": lever.subject,
        "keys": lever.size.keys,
        "demand_bytes": lever.size.size_bytes,
        "exact": lever.exact,
    }
