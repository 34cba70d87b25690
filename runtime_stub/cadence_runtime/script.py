"""What a push does, worked out once for each transition: which captures run, what they read and what they hand on.

Nothing here touches data; a session follows a script with its player.
"""

from collections.abc import Iterator, Mapping
from typing import NoReturn

from cadence_runtime.choices import Shape, read_choices
from cadence_runtime.format.choices import choices_number
from cadence_runtime.format.plan import Form, Plan, TensorForm
from cadence_runtime.format.tape import Literal
from cadence_runtime.frozen import frozen
from cadence_runtime.host.program import Step
from cadence_runtime.host.step import enabled, push

Value = bool | int | None
"""An output or a state leaf that is no tensor."""


@frozen
class Feed:
    """Where an input of a stage comes from: the oldest `rows` rows of a queue, or (None) a named value of the event."""

    position: int
    name: str
    rows: int | None


@frozen
class Call:
    """One run of a capture: what to write first and which outputs it makes, as (position, name)."""

    capture: int
    feeds: tuple[Feed, ...]
    outputs: tuple[tuple[int, str], ...]


@frozen
class EventScript:
    """One event of a push. `arrivals` are the queues that its inputs join, `emits` the outputs that it returns, of
    which `constants` are no tensors; `fills` says how many rows each queue is left with, `restarts` that all go back to
    their start."""

    event: str
    calls: tuple[Call, ...]
    arrivals: tuple[str, ...]
    emits: tuple[str, ...]
    constants: Mapping[str, Value]
    fills: Mapping[str, int]
    restarts: bool


@frozen
class Script:
    """A whole push: its events in order, all captures that they run, and the node that it leads to."""

    events: tuple[EventScript, ...]
    captures: tuple[int, ...]
    target: int


class ScriptBook:
    """The scripts of a plan, each made when it is first asked for."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._events = {event.name: event for event in plan.program.events}
        self._stages = {stage.name: stage for stage in plan.program.stages}
        self._queues = {queue.name: queue for queue in plan.program.queues}
        self._counters = {counter.name: index for index, counter in enumerate(plan.program.counters)}
        self._numbers = {event.name: index for index, event in enumerate(plan.program.events)}
        events = plan.program.events
        self._transitions = {
            (t.source, t.event, choices_number(events[t.event], t.choices)): t for t in plan.transitions
        }
        self._made: dict[tuple[object, ...], Script] = {}

    def find(self, node: int, event: str, shapes: Mapping[str, Shape], given: Mapping[str, int]) -> Script:
        """Return the script of a push at a node, by the shapes of the arrays that it brings and the choices that it
        names. Raises SessionError for one that may not happen."""
        key = (node, event, *shapes.values(), *given.items())
        script = self._made.get(key)
        if script is None:
            script = self._made[key] = self._make(node, event, shapes, given)
        return script

    def refuse(self, node: int, event: str) -> NoReturn:
        """Raise what the host step says of an event that is not there, is internal or is not enabled."""
        found = self._events.get(event)
        choices = {choice.name: choice.lower for choice in found.choices} if found else {}
        push(self.plan.program, self.plan.nodes[node].configuration, event, choices)
        raise AssertionError(f"event `{event}` is not enabled, but may happen")

    def _make(self, node: int, name: str, shapes: Mapping[str, Shape], given: Mapping[str, int]) -> Script:
        program, configuration = self.plan.program, self.plan.nodes[node].configuration
        if name not in enabled(program, configuration):
            self.refuse(node, name)
        counters = zip((counter.name for counter in program.counters), configuration.counters, strict=True)
        choices = read_choices(self._events[name], shapes, given, {**dict(program.params), **dict(counters)})
        steps = push(program, configuration, name, choices)
        number = choices_number(self._events[name], steps[0].choices)
        transition = self._transitions[node, self._numbers[name], number]
        captures = iter(transition.captures)
        return Script(tuple(self._event(step, captures) for step in steps), transition.captures, transition.target)

    def _event(self, step: Step, captures: Iterator[int]) -> EventScript:
        """Return the script of one step, which takes the next captures."""
        event, counters = self._events[step.event], step.after.counters
        numbers = [next(captures) for _ in step.runs]
        made: dict[str, Form] = {}
        for number in numbers:
            made.update(self._outputs(number))
        emits = tuple(name for name in event.outputs if name in made)
        reset = (Call(next(captures), (), ()),) if event.reset else ()
        return EventScript(
            event.name,
            (*(self._call(number) for number in numbers), *reset),
            tuple(entry.name for entry in event.inputs if entry.name in self._queues and not event.internal),
            emits,
            {name: literal_value(form) for name in emits if isinstance(form := made[name], Literal)},
            {queue.name: counters[self._counters[queue.counter]] for queue in self._queues.values()},
            event.reset,
        )

    def _outputs(self, capture: int) -> Iterator[tuple[str, Form]]:
        row = self.plan.captures[capture]
        return zip(self._stages[row.key.stage].outputs, row.outputs, strict=True)

    def _call(self, number: int) -> Call:
        capture = self.plan.captures[number]
        inputs = zip(self._stages[capture.key.stage].inputs, capture.key.inputs, strict=True)
        feeds = [
            self._feed(i, entry.name, form) for i, (entry, form) in enumerate(inputs) if isinstance(form, TensorForm)
        ]
        outputs = enumerate(self._outputs(number))
        return Call(
            number, tuple(feeds), tuple((i, name) for i, (name, form) in outputs if isinstance(form, TensorForm))
        )

    def _feed(self, position: int, name: str, form: TensorForm) -> Feed:
        queue = self._queues.get(name)
        return Feed(position, name, None if queue is None else form.sizes[queue.axis])


def literal_value(literal: Literal) -> Value:
    """Return an output or a state leaf that is no tensor."""
    if literal.kind == "bool":
        return literal.text == "true"
    return int(literal.text) if literal.kind == "int" else None
