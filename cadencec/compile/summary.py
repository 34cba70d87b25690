"""What `compile` says at its end: keys, captures, ops, sizes, coverage, fidelity and times."""

from collections.abc import Mapping
from typing import Any

from cadence_runtime.cuda.compatibility import arena_bytes, executable_bytes, kernels_bytes
from cadence_runtime.format.plan import Fidelity, Plan, Section
from cadence_runtime.format.templates import node_counts
from cadencec.compile.job import Report, Written
from cadencec.trace.listing import format_tape

RANDOM = ", random weights"


def render(report: Report, *, tapes: bool = False) -> str:
    """Return the report as text; with `tapes`, the ops of every tape come first, before and after the passes."""
    plan = report.compiled.plan
    rows = {
        "model": f"{plan.provenance.model} ({plan.provenance.entry})" + RANDOM * plan.provenance.random_weights,
        "timeline": f"{counted(len(plan.nodes), 'state')}, {counted(len(plan.transitions), 'transition')}",
        "coverage": f"{len(plan.captures)} of {len(keys(plan))} reachable keys captured",
        "tapes": f"{len(plan.tapes)}, with {ops(report)['replayed']} ops of {ops(report)['recorded']} recorded",
        **device_row(plan),
        "arena": arena_line(plan),
        "scratch": scratch_line(plan, unplanned_bytes(report)),
        "fidelity": fidelity_line(plan.fidelity),
        "time": time_line(report.phases_s),
        "tracing": parts_line(report.compiled.parts_s),
    }
    pairs = zip(report.compiled.recorded, plan.tapes, strict=True) if tapes else ()
    listings = [
        format_tape(tape, f", {number}, {when}")
        for number, pair in enumerate(pairs)
        for tape, when in zip(pair, ("as recorded", "as replayed"), strict=True)
    ]
    return "\n".join([*listings, files_line(report.written), *(f"  {name:<9} {text}" for name, text in rows.items())])


def to_json(report: Report, *, tapes: bool = False) -> dict[str, Any]:
    """Return the report as an object; sizes are in bytes, times in seconds."""
    plan, written = report.compiled.plan, report.written
    weights = {"file": str(written.weights_file), "bytes": written.weights_bytes} if written.weights_file else None
    recorded = {"recorded_listing": [format_tape(tape) for tape in report.compiled.recorded]} if tapes else {}
    listings = {"listing": [format_tape(tape) for tape in plan.tapes]} if tapes else {}
    return {
        "plan": {"file": str(written.plan_file), "bytes": written.plan_bytes},
        "weights": weights,
        "signature": str(written.signature_file) if written.signature_file else None,
        "model": plan.provenance.model,
        "random_weights": plan.provenance.random_weights,
        "target": plan.target,
        "states": len(plan.nodes),
        "transitions": len(plan.transitions),
        "keys": len(keys(plan)),
        "captures": len(plan.captures),
        "tapes": len(plan.tapes),
        "ops": ops(report),
        "device": device(plan),
        "arena": {section.name: section.size_bytes for section in plan.sections},
        "scratch_lower_bound": scratch(plan).lower_bound,
        "unplanned_bytes": unplanned_bytes(report),
        "fidelity": {name: getattr(plan.fidelity, name) for name in plan.fidelity.__match_args__},
        "warnings": list(report.compiled.warnings),
        "seconds": {phase: round(seconds, 3) for phase, seconds in report.phases_s.items()},
        "trace_seconds": {part: round(seconds, 3) for part, seconds in report.compiled.parts_s.items()},
    } | {**recorded, **listings}


def keys(plan: Plan) -> set[object]:
    """Return the shape keys that the timeline reaches: those of the captures that its transitions and start run."""
    reached = {index for transition in plan.transitions for index in transition.captures} | {plan.init}
    return {plan.captures[index].key for index in reached}


def ops(report: Report) -> dict[str, int]:
    """Return the number of ops over all tapes, as recorded and as replayed."""
    return {
        "recorded": report.compiled.recorded_ops,
        "replayed": sum(len(tape.ops) for tape in report.compiled.plan.tapes),
    }


def device(plan: Plan) -> dict[str, int | None] | None:
    """Return the graphs of a CUDA plan, their nodes, and the bytes on the device once every key is resident, as
    predicted: arena, executables and kernels, the last None where the plan does not say. None for a CPU plan."""
    if plan.cuda is None:
        return None
    arena, executables, kernels = arena_bytes(plan), executable_bytes(plan.cuda), kernels_bytes(plan)
    return {
        "graphs": len(plan.cuda.graphs),
        "nodes": sum(node_counts(plan.cuda.graphs)),
        "arena_bytes": arena,
        "executables_bytes": executables,
        "kernels_bytes": kernels,
        "resident_bytes": arena + executables + (kernels or 0),
    }


def device_row(plan: Plan) -> dict[str, str]:
    """Return the row on what a CUDA plan takes on the device; none for a CPU plan."""
    found = device(plan)
    if found is None:
        return {}
    kernels = "not known" if found["kernels_bytes"] is None else size(found["kernels_bytes"])
    parts = f"arena {size(found['arena_bytes'] or 0)}, executables {size(found['executables_bytes'] or 0)}"
    return {
        "device": f"{counted(found['nodes'] or 0, 'node')} in {counted(found['graphs'] or 0, 'graph')}; "
        f"{size(found['resident_bytes'] or 0)} with all keys resident, as predicted: {parts}, kernels {kernels}"
    }


def files_line(written: Written) -> str:
    """Return the files that were written, and their sizes."""
    line = f"{written.plan_file}: {size(written.plan_bytes)}"
    line += f", and {written.weights_file}: {size(written.weights_bytes)}" if written.weights_file else ""
    return f"{line}, signed: {written.signature_file}" if written.signature_file else line


def arena_line(plan: Plan) -> str:
    """Return the sizes of the arena's sections."""
    total = sum(section.size_bytes for section in plan.sections)
    parts = ", ".join(f"{section.name} {size(section.size_bytes)}" for section in plan.sections if section.size_bytes)
    return f"{size(total)}: {parts}"


def scratch(plan: Plan) -> Section:
    """Return the scratch section."""
    return next(section for section in plan.sections if section.name == "scratch")


def unplanned_bytes(report: Report) -> int:
    """Return the bytes that torch allocates itself in the replay of a tape, at most."""
    return max(report.compiled.unplanned_bytes, default=0)


def scratch_line(plan: Plan, unplanned: int) -> str:
    """Return how well scratch is packed, and what is not planned at all."""
    section = scratch(plan)
    over = section.size_bytes - section.lower_bound
    packed = f"{size(section.size_bytes)}, " + (f"{size(over)} over its lower bound" if over else "its lower bound")
    return packed + (f"; torch allocates up to {size(unplanned)} more in a replay" if unplanned else "")


def fidelity_line(fidelity: Fidelity) -> str:
    """Return what was compared with the stock model."""
    tapes, events = counted(fidelity.tapes, "tape"), counted(fidelity.walk_events, "event")
    return (
        f"{tapes} on at least {counted(fidelity.values_per_tape, 'set')} of values each and a walk of {events}: "
        f"{counted(fidelity.outputs_compared, 'output')} bit-equal to the stock model"
    )


def time_line(phases_s: Mapping[str, float]) -> str:
    """Return the time of the whole and of each phase."""
    return f"{sum(phases_s.values()):.1f} s: {parts_line(phases_s)}"


def parts_line(parts_s: Mapping[str, float]) -> str:
    """Return the time of each part."""
    return ", ".join(f"{part} {seconds:.1f}" for part, seconds in parts_s.items())


def size(count: int) -> str:
    """Return a number of bytes for people: three digits and a unit of thousands."""
    value, units = float(count), iter(("B", "kB", "MB", "GB"))
    unit = next(units)
    while value >= 999.5 and unit != "GB":
        value, unit = value / 1000, next(units)
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
