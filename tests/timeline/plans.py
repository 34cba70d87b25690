"""A plan without any tape, worked out from a timeline: what the closure checker looks at, and nothing else."""

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
from cadence_runtime.host.program import Configuration, Program, Region
from cadence_runtime.host.step import push
from cadencec.timeline import build


class Builder:
    """Collects the parts of a plan by value."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.regions = {region.name: region for region in program.regions}
        self.leaves = [Leaf(path, region.name, 0, 0) for region in program.regions for path in region.leaves]
        self.leaves += [Leaf(counter.leaf, counter.name, 0, 0) for counter in program.counters if counter.leaf]
        self.forms: dict[Form, int] = {}
        self.captures: dict[Capture, int] = {}

    def form(self, leaf: Leaf, configuration: Configuration) -> int:
        if leaf.owner in self.regions:
            at = list(self.regions).index(leaf.owner)
            form = region_form(self.regions[leaf.owner], configuration.lengths[at])
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
        """The captures of a push, for programs whose stages do not read what an earlier one of their event wrote."""
        found = []
        events = {each.name: each for each in self.program.events}
        for step in push(self.program, configuration, event, choices):
            before, after = self.all_forms(configuration), self.all_forms(step.after)
            for run in step.runs:
                stage = next(stage for stage in self.program.stages if stage.name == run.stage)
                state = tuple((i, before[i]) for i, leaf in enumerate(self.leaves) if leaf.owner in stage.reads)
                writes = {i: after[i] for i, leaf in enumerate(self.leaves) if leaf.owner in stage.writes}
                inputs = tuple(input_form(form) for form in run.inputs)
                found.append(self.capture(Key(run.stage, run.args, inputs, state), writes))
            if events[step.event].reset:
                found.append(self.capture(Key(RESET, (), (), ()), dict(enumerate(after))))
            configuration = step.after
        return tuple(found)


def region_form(region: Region, length: int) -> Form:
    if length < 0:
        return Literal("none", "")
    return TensorForm(region.dtype, tuple(length if size is None else size for size in region.shape), ())


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
