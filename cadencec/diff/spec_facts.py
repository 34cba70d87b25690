"""The facts of a clock spec: what it declares, and what follows from it. No model is run."""

from collections.abc import Mapping

from cadence_runtime.errors import CadenceError, TimelineError
from cadence_runtime.host.program import ABSENT, Program, Stage
from cadencec.diff.facts import Facts, declared, unique
from cadencec.spec import load_spec
from cadencec.timeline import StageKey, Timeline, build


def spec_facts(path: str, overrides: Mapping[str, str] | None = None) -> Facts:
    """Read a spec file; of one whose timeline cannot be proven, what it declares is left. Raises SpecError, or
    UsageError CAD90xx for a path that is no readable file."""
    spec = load_spec(path, overrides)
    faults: tuple[CadenceError, ...] = ()
    followed: dict[str, dict[str, str]] = {}
    measures: dict[str, int] = {}
    try:
        timeline = build(spec.program, where=spec.where)
    except TimelineError as fault:
        faults = (fault,)
    else:
        followed = {"keys": _keys(spec.program, timeline), "demand": _demand(timeline)}
        measures = {"keys": len(followed["keys"]), "state": sum(item.size_bytes for item in timeline.demand)}
    model = {"entry": spec.model.entry, **{f"option {name}": str(value) for name, value in spec.model.options}}
    for item in spec.model.weights:
        named = f"{item.path} as {item.prefix}" if item.prefix else item.path
        model |= {f"weights file {named}": item.sha256 or "not pinned"}
    parts = {**declared(spec.program), **followed, "numerics": _texts(spec.numerics), "provenance": model}
    unread = () if followed else ("keys", "demand")
    return Facts("spec", path, spec.model.name, "", parts, measures, unread=unread, faults=faults)


def _texts(pairs: tuple[tuple[str, bool | int | str], ...]) -> dict[str, str]:
    return {name: str(value).lower() for name, value in pairs}


def _demand(timeline: Timeline) -> dict[str, str]:
    return {item.region: f"{item.size_bytes} bytes" for item in timeline.demand}


def _keys(program: Program, timeline: Timeline) -> dict[str, str]:
    stages = {stage.name: stage for stage in program.stages}
    return unique((_key_name(stages[key.stage], key), "") for key in timeline.keys)


def _key_name(stage: Stage, key: StageKey) -> str:
    words = [f"{name}={value}" for name, value in zip(stage.args, key.args, strict=True)]
    inputs = zip(stage.inputs, key.inputs, strict=True)
    words += [f"{item.name}={_form(form)}" for item, form in inputs if form is not None]
    lengths = zip(stage.reads, key.lengths, strict=True)
    words += [f"{name}={'absent' if length == ABSENT else length}" for name, length in lengths]
    return f"{key.stage}({', '.join(words)})"


def _form(form: tuple[int, ...] | str) -> str:
    return form if isinstance(form, str) else f"[{','.join(map(str, form))}]"
