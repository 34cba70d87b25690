"""A plan without any tape, worked out from a timeline: what the closure checker looks at, and nothing else."""

from dataclasses import replace

from cadence_runtime.format.plan import (
    INIT,
    RESET,
    Capture,
    Fidelity,
    Form,
    Key,
    Leaf,
    Node,
    Plan,
    Provenance,
    TensorForm,
)
from cadence_runtime.format.plan import Transition as Row
from cadence_runtime.format.tape import Literal
from cadence_runtime.host.program import Configuration, Program, Region, Stage, StageRun
from cadence_runtime.host.step import fire, push
from cadencec.timeline import build


class Builder:
    """Collects the parts of a plan by value."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.regions = {region.name: region for region in program.regions}
        self.indexed = {name for stage in program.stages for name in stage.indexed}
        self.leaves = [
            Leaf(path, region.name, 0, 0)
            for region in program.regions
            for leaf in region.leaves
            for path in self.paths(region, leaf)
        ]
        self.leaves += [Leaf(counter.leaf, counter.name, 0, 0) for counter in program.counters if counter.leaf]
        self.forms: dict[Form, int] = {}
        self.captures: dict[Capture, int] = {}

    def paths(self, region: Region, leaf: str) -> list[str]:
        """A leaf for each row where a stage takes the region row by row."""
        return [f"{leaf}[{row}]" for row in range(region.shape[0] or 0)] if region.name in self.indexed else [leaf]

    def form(self, leaf: Leaf, configuration: Configuration) -> int:
        if leaf.owner in self.regions:
            at = list(self.regions).index(leaf.owner)
            return self.region_form(leaf.owner, {leaf.owner: configuration.lengths[at]})
        else:
            at = [counter.name for counter in self.program.counters].index(leaf.owner)
            form = Literal("int", str(configuration.counters[at]))
        return self.forms.setdefault(form, len(self.forms))

    def all_forms(self, configuration: Configuration) -> tuple[int, ...]:
        return tuple(self.form(leaf, configuration) for leaf in self.leaves)

    def capture(self, key: Key, writes: dict[int, int]) -> int:
        made = Capture(key, 0, tuple(writes.items()), (), (), (), ())
        return self.captures.setdefault(made, len(self.captures))

    def row_captures(self, configuration: Configuration, event: str, choices: dict[str, int]) -> tuple[int, ...]:
        """The captures of a push: stages leave regions grown, and at their last index restarted."""
        found = []
        events = {each.name: each for each in self.program.events}
        for step in push(self.program, configuration, event, choices):
            named = choices if step.event == event else {}
            grown, left = (self.lengths(configuration, step.event, named, restart) for restart in (False, True))
            for run in step.runs:
                stage = next(stage for stage in self.program.stages if stage.name == run.stage)
                last = stage.repeat is None or run.index == stage.repeat[1] - 1
                args = run.args if run.index is None else (*run.args, run.index)
                key = Key(run.stage, args, tuple(map(input_form, run.inputs)), self.state(stage, run))
                found.append(self.capture(key, self.writes(stage, run, grown if not last else left, left)))
            if events[step.event].reset:
                found.append(self.capture(Key(RESET, (), (), ()), dict(enumerate(self.all_forms(step.after)))))
            configuration = step.after
        return tuple(found)

    def lengths(self, before: Configuration, name: str, choices: dict[str, int], restart: bool) -> dict[str, int]:
        """The lengths that the stages of an event leave behind, before any reset."""
        bare = [
            replace(each, reset=False, effects=(), inputs=(), restart=each.restart if restart else ())
            for each in self.program.events
        ]
        after = fire(replace(self.program, events=tuple(bare), queues=(), horizon=None), before, name, choices).after
        return dict(zip(self.regions, after.lengths, strict=True))

    def state(self, stage: Stage, run: StageRun) -> tuple[tuple[int, int], ...]:
        found = dict(zip(stage.reads, run.lengths, strict=True))
        return tuple(
            (i, self.region_form(leaf.owner, found))
            for i, leaf in enumerate(self.leaves)
            if leaf.owner in found and is_met(stage, run, leaf)
        )

    def writes(self, stage: Stage, run: StageRun, lengths: dict[str, int], of_rows: dict[str, int]) -> dict[int, int]:
        return {
            i: self.region_form(leaf.owner, of_rows if leaf.owner in stage.indexed else lengths)
            for i, leaf in enumerate(self.leaves)
            if leaf.owner in stage.writes and is_met(stage, run, leaf)
        }

    def region_form(self, name: str, lengths: dict[str, int]) -> int:
        form = region_form(self.regions[name], lengths[name], name in self.indexed)
        return self.forms.setdefault(form, len(self.forms))


def is_met(stage: Stage, run: StageRun, leaf: Leaf) -> bool:
    """Whether a run sees a leaf of a region that its stage reads or writes: of an indexed one only its row."""
    return leaf.owner not in stage.indexed or leaf.path.endswith(f"[{run.index}]")


def region_form(region: Region, length: int, is_row: bool) -> Form:
    if length < 0:
        return Literal("none", "")
    sizes = tuple(length if size is None else size for size in region.shape)
    return TensorForm(region.dtype, sizes[1:] if is_row else sizes, ())


def input_form(form: tuple[int, ...] | str | None) -> Form:
    return TensorForm("float32", form if isinstance(form, tuple) else (), ())


def toy_plan(program: Program) -> Plan:
    """A plan whose timeline is closed."""
    timeline, builder = build(program), Builder(program)
    begin = builder.all_forms(timeline.configurations[0])
    init = builder.capture(Key(INIT, (), (), ()), dict(enumerate(begin)))
    rows = []
    for taken in timeline.transitions:
        event = program.events[taken.event]
        choices = {choice.name: value for choice, value in zip(event.choices, taken.choices, strict=True)}
        captures = builder.row_captures(timeline.configurations[taken.source], event.name, choices)
        source, target = timeline.rest.index(taken.source), timeline.rest.index(taken.target)
        rows.append(Row(source, taken.event, taken.choices, captures, target))
    configurations = [timeline.configurations[i] for i in timeline.rest]
    nodes = tuple(Node(configuration, builder.all_forms(configuration)) for configuration in configurations)
    return Plan(
        "cpu", program, tuple(builder.leaves), tuple(builder.forms), (), tuple(builder.captures), nodes,
        tuple(rows), init, (), (), None, (), (), Fidelity(0, 0, 0, 0, ()),
        Provenance("toy", "toy:build", "", "", (), (), False),
    )  # fmt: skip
