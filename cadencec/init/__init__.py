"""Init: a first clock spec from watching a module run."""

import os.path
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cadence_runtime.errors import TraceError, UsageError
from cadence_runtime.format.replace import check_place, replace_file
from cadencec.init.infer import Inferred, infer
from cadencec.init.observe import Observations, observe
from cadencec.init.pushes import described, examples
from cadencec.init.write import Heading, event_names, spec_text
from cadencec.plan.compile import CompiledPlan, compile_spec
from cadencec.spec.load import parse_spec
from cadencec.spec.source import compose_value, plain
from cadencec.spec.values import read_entry, read_file_name, read_option, read_time
from cadencec.trace.model import load_model
from cadencec.trace.oracle import has_oracle

__all__ = ["Report", "Request", "init_file", "render", "to_json"]

Progress = Callable[[str, int, int], None]
STEPS = 400
"""Pushes of one kind after which a length that still grows counts as growing for ever."""
_ENDLESS_LAYOUTS = "CAD3602"


@dataclass(frozen=True, slots=True)
class Request:
    """What to watch. `entry` is `package.module:function` or `file.py:function`, the file relative to the working
    folder, and `overrides` are its options as text; `pushes` describe inputs where the module has no
    `example_inputs`; `cadence` is the time between two of them, such as `80 ms`."""

    entry: str
    output: str | None = None
    pushes: tuple[str, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    cadence: str | None = None
    horizon: int | None = None
    steps: int = STEPS
    force: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """The spec that was written, and what is behind it."""

    path: str
    text: str
    observations: Observations
    inferred: Inferred
    compiled: CompiledPlan

    @property
    def questions(self) -> int:
        """How many questions the spec asks."""
        return sum("# ?" in line or ". ? " in line for line in self.text.splitlines())


def init_file(request: Request, progress: Progress = lambda phase, done, total: None) -> Report:
    """Watch a model, write its spec, and compile it to see that it holds.

    Raises what `compile` raises for a model that no plan can serve; UsageError CAD9401 where a spec stands already,
    CAD9402 for a push that cannot be read, and CAD92xx for a file that cannot be written.
    """
    name = _name(request.entry) if request.name is None else read_file_name(request.name)
    output = f"{name}.yaml" if request.output is None else request.output
    _check_free(output, request.force)
    cadence_s = None if request.cadence is None else read_time(request.cadence)
    options = {
        key: read_option(plain(compose_value(text, f"--set {key}")[0])) for key, text in request.overrides.items()
    }
    progress("load", 0, 1)
    model = load_model(read_entry(request.entry), options, ".")
    if model.has_stages:
        raise TraceError(
            "CAD3419",
            f"`{request.entry}` gives its stages by name",
            expected="a model with one `step`",
            got="a model with `stages`, whose order and regions only its author knows",
            hint="write the spec by hand, as docs/spec.md teaches: its third model has several stages",
        )
    pushes = described(request.pushes) if request.pushes else examples(request.entry, model)
    progress("watch", 0, 1)
    found = observe(model, pushes, request.steps)
    inferred = infer(found)
    entry = _relative(request.entry, os.path.dirname(os.path.abspath(output)))
    released = has_oracle(request.entry, ".")
    heading = Heading(name, entry, options, cadence_s, request.horizon, model.has_reset, released)
    text, compiled = _checked(heading, found, inferred, output, progress)
    replace_file(output, [text.encode()])
    return Report(output, text, found, inferred, compiled)


def _checked(
    heading: Heading, found: Observations, inferred: Inferred, output: str, progress: Progress
) -> tuple[str, CompiledPlan]:
    """Compile the spec; one whose layouts change for ever gets contiguous ones, if the bits allow it."""
    text = spec_text(heading, found, inferred)
    try:
        return text, compile_spec(parse_spec(text, output), progress=progress)
    except TraceError as error:
        moving = frozenset(region.name for region in inferred.regions if region.advance is not None)
        if error.code != _ENDLESS_LAYOUTS or not moving:
            raise
    text = spec_text(replace(heading, contiguous=moving), found, inferred)
    return text, compile_spec(parse_spec(text, output), progress=progress)


def _check_free(output: str, force: bool) -> None:
    check_place(output)
    if os.path.exists(output) and not force:
        hint = "choose another name with `-o`, or replace it with `--force`"
        raise UsageError("CAD9401", "there is a file already", expected="a free name", got=output, hint=hint)


def _name(entry: str) -> str:
    place, _, function = entry.rpartition(":")
    stem = Path(place).stem if place.endswith(".py") else place.rpartition(".")[2]
    words = "-".join(word for word in stem.replace("_", "-").split("-") if word)
    return words.lstrip("0123456789-").lower() or function or "model"


def _relative(entry: str, folder: str) -> str:
    """Return an entry as a spec in a folder names it."""
    place, _, function = entry.rpartition(":")
    if not place.endswith(".py"):
        return entry
    path = os.path.relpath(os.path.abspath(place), folder)
    return f"{path if path.startswith('.') else './' + path}:{function}"


def render(report: Report) -> str:
    """Return what was found for people."""
    found, inferred, plan = report.observations, report.inferred, report.compiled.plan
    count = len(inferred.regions)
    lines = [f"{report.path}: {count} region{'' if count == 1 else 's'}, {', '.join(event_names(found))}"]
    for region in inferred.regions:
        kind, cap = region.retention
        lines.append(f"  {region.name:<24} {kind if cap is None else f'{kind} {cap}'}: {region.why}")
    lines.append(
        f"  compiled to see that it holds: {len(plan.captures)} keys, {plan.fidelity.outputs_compared} outputs equal"
    )
    count = report.questions
    if count:
        lines.append(f"  {count} question{'' if count == 1 else 's'} to answer, behind a ? in the file")
    lines.append(f"next: cadencec explain {report.path}")
    return "\n".join(lines)


def to_json(report: Report) -> dict[str, Any]:
    """Return what was found as plain JSON values."""
    found, inferred = report.observations, report.inferred
    names = event_names(found)
    return {
        "path": report.path,
        "questions": report.questions,
        "pushes": [
            {"event": name, "inputs": dict(zip(found.names, map(_form, kind), strict=True))}
            for name, kind in zip(names, found.kinds, strict=True)
        ],
        "regions": [
            {
                "name": region.name,
                "leaves": list(region.leaves),
                "dtype": region.dtype,
                "shape": list(region.shape),
                "start": region.start,
                "retention": {"kind": region.retention[0], "cap": region.retention[1]},
                "advance": None if region.advance is None else list(region.advance),
                "why": region.why,
                "question": region.question or None,
            }
            for region in inferred.regions
        ],
        "clocks": {name: str(ratio) for name, ratio in inferred.clocks.items()},
        "advance": dict(zip(names, inferred.advance, strict=True)),
        "orders": None
        if inferred.guards is None
        else {
            "start" if before < 0 else names[before]: [names[kind] for kind in allowed]
            for before, allowed in inferred.guards.items()
        },
        "grows": {"regions": list(inferred.grows), "pushes": found.longest, "raised": found.raised or None},
        "keys": len(report.compiled.plan.captures),
    }


def _form(form: object) -> object:
    return {"dtype": form[0], "sizes": list(form[1])} if isinstance(form, tuple) else form
