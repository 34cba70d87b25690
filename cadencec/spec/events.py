"""Events of the document -> events of the program: every expression has its names, every stage gets its inputs."""

from cadence_runtime.errors import SpecError
from cadence_runtime.host.expression import Expression
from cadence_runtime.host.program import Choice, Event, EventInput, Queue, Stage
from cadencec.spec.flow import Flow
from cadencec.spec.names import Names
from cadencec.spec.report import Subject
from cadencec.spec.schema import EventDoc


def build_events(stages: dict[str, Stage], queues: dict[str, Queue], names: Names) -> tuple[Event, ...]:
    """Return the events, in written order; report what is wrong with them."""
    _check_use(names)
    return tuple(_Builder(name, event, names).build(stages, queues) for name, event in names.document.events.items())


def _check_use(names: Names) -> None:
    """Report a spec that nothing from outside can set going, and stages that no event runs."""
    events, report = names.document.events, names.report
    if report.has_unreadable("events"):
        return
    if all(event.internal for event in events.values()):
        hint = "add one, such as `frame: {inputs: {x: [1, 80]}, run: [step]}`"
        report.add(SpecError("CAD1311", "no event comes from outside", hint=hint), ("events",), key=True)
    run = {stage for event in events.values() for stage in event.run}
    has_typo = not run <= names.document.stages.keys()
    for name in names.document.stages:
        if name not in run and not has_typo:
            hint = f"add `run: [{name}]` to an event"
            report.add(SpecError("CAD1311", f"no event runs stage `{name}`", hint=hint), ("stages", name), key=True)


class _Builder(Subject):
    """Builds one event. `values` grows by what each part may name: constants and counters, then choices, then lets."""

    def __init__(self, name: str, declared: EventDoc, names: Names) -> None:
        super().__init__(("events", name), names.report)
        self.name, self.declared, self.names = name, declared, names
        self.values = [*names.constants, *names.document.counters]

    def build(self, stages: dict[str, Stage], queues: dict[str, Queue]) -> Event:
        declared = self.declared
        choices = self.choices()
        if declared.when is not None:
            self.names.check(declared.when, (*self.location, "when"), self.values)
        for name, expression in declared.let.items():
            self.names.check(expression, (*self.location, "let", name), self.values)
            self.bind(name, "let")
        inputs = tuple(self.input(name, value) for name, value in declared.inputs.items())
        advance = self.advance()
        for name, expression in declared.do.items():
            self.names.resolve("counters", "counter", name, (*self.location, "do", name))
            self.names.check(expression, (*self.location, "do", name), self.values)
        run = self.run(stages)
        self.restart(run)
        flow = Flow(self.name, self.declared, run, self.values, self.names)
        return Event(
            name=self.name,
            internal=declared.internal,
            when=declared.when,
            choices=choices,
            lets=tuple(declared.let.items()),
            inputs=inputs,
            advance=advance,
            run=tuple(declared.run),
            effects=tuple(declared.do.items()),
            restart=tuple(declared.restart),
            reset=declared.reset,
            outputs=flow.check(queues),
        )

    def bind(self, name: str, kind: str) -> None:
        """Let the parts that follow use a name, which must be new."""
        location = (*self.location, {"choice": "choose", "let": "let"}[kind], name)
        if name in self.names.kinds or name == "t":
            self.names.declare(name, kind, location)
        elif name in self.values:
            what = f"`{name}` is both a choice and a {kind}"
            self.fail("CAD1302", what, *location[2:], key=True, expected="one meaning a name")
        self.values.append(name)

    def choices(self) -> tuple[Choice, ...]:
        if self.declared.internal and self.declared.choose:
            hint = "name what it follows from with `let`"
            self.fail(
                "CAD1312", f"internal event `{self.name}` has choices, and nobody to make them", "choose", hint=hint
            )
        found = []
        for name, span in self.declared.choose.items():
            location = (*self.location, "choose", name)
            first, last = self.names.evaluate(span.first, location), self.names.evaluate(span.last, location)
            self.bind(name, "choice")
            if first is None or last is None:
                continue
            if last < first:
                self.fail(
                    "CAD1303",
                    f"choice `{name}` has no values: {first}..{last}",
                    "choose",
                    name,
                    expected="lowest first",
                )
            found.append(Choice(name, first, last + 1))
        return tuple(found)

    def input(self, name: str, value: object) -> EventInput:
        if not isinstance(value, tuple):
            return EventInput(name, literal=value)  # type: ignore[arg-type]
        for index, dim in enumerate(value):
            self.names.check(dim, (*self.location, "inputs", name, index), self.values)
        return EventInput(name, value)

    def advance(self) -> tuple[str, Expression] | None:
        advances = list(self.declared.advance.items())
        for clock, expression in advances:
            self.names.resolve("clocks", "clock", clock, (*self.location, "advance", clock))
            self.names.check(expression, (*self.location, "advance", clock), self.values)
        if len(advances) > 1:
            what = f"event `{self.name}` advances {len(advances)} clocks"
            expected = "one clock; the others follow by their rates"
            self.fail("CAD1306", what, "advance", expected=expected, hint=self.advance_hint())
        return advances[0] if advances else None

    def advance_hint(self) -> str | None:
        """Return what the first clock makes of the second, where that is a matter of numbers."""
        (first, ticks), (second, written), *_ = self.declared.advance.items()
        rates = self.names.document.clocks
        if ticks.names or written.names or first not in rates or second not in rates:
            return f"keep the one that counts what comes in, such as `{{{first}: {ticks}}}`"
        follows = ticks.evaluate({}) * rates[second] / rates[first]
        regions = [name for name, region in self.names.document.regions.items() if region.clock == second]
        who = f" (regions {', '.join(f'`{name}`' for name in regions)})" if regions else ""
        return f"`{first}: {ticks}` is `{second}: {follows}`{who}; the spec says {written}"

    def run(self, stages: dict[str, Stage]) -> list[Stage]:
        """Return the stages that the event runs and that make sense."""
        found = []
        for index, name in enumerate(self.declared.run):
            location = (*self.location, "run", index)
            self.names.resolve("stages", "stage", name, location)
            if name in self.declared.run[:index]:
                self.fail("CAD1302", f"event `{self.name}` runs stage `{name}` twice", "run", index, expected="once")
            elif name in stages:
                found.append(stages[name])
        return found

    def restart(self, run: list[Stage]) -> None:
        written = {region for stage in run for region in stage.writes}
        for index, name in enumerate(self.declared.restart):
            location = (*self.location, "restart", index)
            if (
                self.names.resolve("regions", "region", name, location)
                and name not in written
                and len(run) == len(self.declared.run)
            ):
                hint = "a stage returns it at its start length; to run the model's own reset, write `reset: true`"
                self.fail(
                    "CAD1312", f"no stage of event `{self.name}` writes region `{name}`", "restart", index, hint=hint
                )
