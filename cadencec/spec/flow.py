"""Where the inputs of an event's stages come from, and which outputs it delivers.

unit {token: [1, 25]} ──> queue token            chunk {token: [1, tok]} ──> encode ──mel──> denoise ──> audio
an event input goes to a queue or to a stage     a stage input is an event input or an earlier output
"""

from cadence_runtime.errors import SpecError
from cadence_runtime.host.program import Queue, Stage, StageInput
from cadencec.spec.names import Names
from cadencec.spec.report import Subject
from cadencec.spec.schema import EventDoc
from cadencec.spec.values import one_of, shown, suggest


class Flow(Subject):
    """The data flow of one event; `values` are the names that its stages may take as args."""

    def __init__(self, name: str, declared: EventDoc, run: list[Stage], values: list[str], names: Names) -> None:
        super().__init__(("events", name), names.report)
        self.name, self.declared, self.stages, self.values, self.names = name, declared, run, values, names
        self.is_whole = len(run) == len(declared.run)

    def check(self, queues: dict[str, Queue]) -> tuple[str, ...]:
        """Report what does not meet; return the outputs that the event delivers."""
        taken: dict[str, StageInput] = {}
        made: dict[str, str] = {}
        for position, stage in enumerate(self.stages):
            self.check_args(stage, position)
            for item in stage.inputs:
                if item.name in made:
                    continue
                self.check_source(stage, item, queues, position)
                if taken.setdefault(item.name, item) != item:
                    what = f"two stages of event `{self.name}` describe input `{item.name}` differently"
                    self.fail("CAD1307", what, "run", expected="one description")
            for output in stage.outputs:
                # A stage may replace what it takes, as an Euler step does with its latent.
                if output in made and output not in {item.name for item in stage.inputs}:
                    what = f"stages `{made[output]}` and `{stage.name}` of event `{self.name}` both give `{output}`"
                    self.fail("CAD1307", what, "run", position, expected="one of them, or an input of its name too")
                made[output] = stage.name
        self.check_inputs(taken, queues)
        return self.outputs(made)

    def check_args(self, stage: Stage, position: int) -> None:
        known = [*self.values, *self.names.document.clocks]
        for arg in stage.args:
            if arg not in known and not self.names.is_echo(arg):
                what = f"event `{self.name}` gives stage `{stage.name}` no value for its arg `{arg}`"
                hint = suggest(arg, known) or f"add `let: {{{arg}: 0}}` to the event"
                self.fail("CAD1307", what, "run", position, expected=one_of(known), hint=hint)

    def check_source(self, stage: Stage, item: StageInput, queues: dict[str, Queue], position: int) -> None:
        """Report a stage input that nothing gives, or that has no values to check with."""
        what = f"event `{self.name}` gives stage `{stage.name}` no input `{item.name}`"
        if item.name not in self.declared.inputs:
            if not self.is_whole:
                return
            example = shown(item.literals[0]).strip("`") if item.literals else "[1, 80]"
            hint = f"add `inputs: {{{item.name}: {example}}}`"
            hint += "" if item.literals else ", or run the stage that makes it first"
            self.fail(
                "CAD1307", what, "run", position, expected="an event input or an output of an earlier stage", hint=hint
            )
        elif item.name in queues and not self.declared.internal:
            hint = "run the stage in an internal event, which takes rows from the queue"
            self.fail(
                "CAD1309", f"event `{self.name}` fills queue `{item.name}` and empties it", "run", position, hint=hint
            )
        elif item.lower is None and not item.literals and _needs_range(item.dtype):
            what = f"input `{item.name}` of stage `{stage.name}` has no range"
            expected = f"the lowest and highest {item.dtype} that it may hold"
            location = ("stages", stage.name, "inputs", item.name)
            error = SpecError("CAD1303", what, expected=expected, hint="add `range: [0, 31]`")
            self.names.report.add(error, location, key=True)

    def check_inputs(self, taken: dict[str, StageInput], queues: dict[str, Queue]) -> None:
        """Report event inputs that go nowhere, and literals that a stage does not know."""
        for name, value in self.declared.inputs.items():
            item, is_shape = taken.get(name), isinstance(value, tuple)
            if name in self.names.document.queues:
                self.check_queued(name, value, queues.get(name))
            elif self.report.is_unreadable("queues", name):
                continue
            elif item is not None and not item.dtype:
                self.check_literal(item, value)
            elif self.declared.internal and is_shape:
                what = f"internal event `{self.name}` brings input `{name}`, and nobody to give it"
                expected = one_of(self.names.document.queues) or "a queue"
                hint = f"hold it back in a queue: `queues: {{{name}: {{counter: buf, axis: 1}}}}`"
                self.fail("CAD1307", what, "inputs", name, key=True, expected=expected, hint=hint)
            elif item is None and self.is_whole:
                known = {known.name for stage in self.stages for known in stage.inputs}
                what = f"input `{name}` of event `{self.name}` goes to no stage and no queue"
                meant = suggest(name, known)
                self.fail("CAD1307", what, "inputs", name, key=True, expected=one_of(known), hint=meant)
            elif item is not None and not is_shape:
                hint = f"write a shape such as `[1, 80]`, or give input `{name}` of its stage `choices`"
                what = f"input `{name}` is a tensor"
                self.fail("CAD1310", what, "inputs", name, key=True, expected="a shape", hint=hint)

    def check_literal(self, item: StageInput, value: object) -> None:
        if not item.literals or any(type(value) is type(known) and value == known for known in item.literals):
            return
        is_shape = isinstance(value, tuple)
        what = f"input `{item.name}` is a literal" if is_shape else f"input `{item.name}` cannot be {shown(value)}"
        expected = one_of(shown(known).strip("`") for known in item.literals)
        self.fail("CAD1310", what, "inputs", item.name, key=True, expected=expected)

    def check_queued(self, name: str, value: object, queue: Queue | None) -> None:
        if not isinstance(value, tuple):
            self.fail(
                "CAD1309",
                f"queue `{name}` takes tensors",
                "inputs",
                name,
                key=True,
                expected="a shape such as `[1, n]`",
            )
        elif queue is not None and queue.axis >= len(value):
            what = f"input `{name}` has {len(value)} dims and its queue grows along dim {queue.axis}"
            self.fail("CAD1309", what, "inputs", name, key=True, expected=f"{queue.axis + 1} dims or more")

    def outputs(self, made: dict[str, str]) -> tuple[str, ...]:
        """Return the outputs as declared, or those that no later stage takes."""
        if self.declared.outputs is None:
            return tuple(output for output in made if not self.is_taken(output, made[output]))
        for index, output in enumerate(self.declared.outputs):
            if output not in made and self.is_whole:
                what = f"no stage of event `{self.name}` gives output `{output}`"
                self.fail("CAD1307", what, "outputs", index, expected=one_of(made), hint=suggest(output, made))
        return tuple(self.declared.outputs)

    def is_taken(self, output: str, maker: str) -> bool:
        """Return whether a stage after the last one that gives an output takes it."""
        names = [stage.name for stage in self.stages]
        return any(output == item.name for stage in self.stages[names.index(maker) + 1 :] for item in stage.inputs)


def _needs_range(dtype: str) -> bool:
    return dtype.startswith(("int", "uint"))
