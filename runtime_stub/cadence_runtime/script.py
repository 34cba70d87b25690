"""What a push does, worked out once for each transition: which captures run, what they read and what they hand on.

Nothing here touches data; a session follows a script with its player.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cadence_runtime.format.plan import Plan, TensorForm
from cadence_runtime.format.tape import Literal
from cadence_runtime.host.program import Event, Stage, Step
from cadence_runtime.host.step import push


@dataclass(frozen=True, slots=True)
class Feed:
    """Where an input of a stage comes from: rows `0:rows` of a queue, or a named value of the event."""

    position: int
    name: str
    queue: bool
    axis: int
    rows: int


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a capture: what to write first and which outputs to take, as (position, name). `literals` are the
    outputs that are no tensors, by name."""

    capture: int
    feeds: tuple[Feed, ...]
    outputs: tuple[tuple[int, str], ...]
    literals: tuple[tuple[str, bool | int | None], ...] = ()


@dataclass(frozen=True, slots=True)
class EventScript:
    """One event of a push. `arrivals` are the queues that its inputs join, `emits` the names it returns; `fills` are
    the rows that each queue is left with, `restarts` says that queues go back to their start."""

    event: str
    calls: tuple[Call, ...]
    arrivals: tuple[str, ...]
    emits: tuple[str, ...]
    fills: tuple[tuple[str, int], ...]
    restarts: bool


@dataclass(frozen=True, slots=True)
class Script:
    """A whole push: its events in order, and the node that it leads to."""

    events: tuple[EventScript, ...]
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
        self._transitions = {(t.source, t.event, t.choices): t for t in plan.transitions}
        self._made: dict[tuple[int, str, tuple[int, ...]], Script] = {}

    def find(self, node: int, event: str, choices: Mapping[str, int]) -> Script:
        """Return the script of a push at a node. Raises SessionError CAD70xx for one that may not happen."""
        key = (node, event, tuple(choices.values()))
        script = self._made.get(key)
        if script is None:
            script = self._made[key] = self._make(node, event, choices)
        return script

    def _make(self, node: int, event: str, choices: Mapping[str, int]) -> Script:
        steps = push(self.plan.program, self.plan.nodes[node].configuration, event, choices)
        transition = self._transitions[node, self._numbers[event], steps[0].choices]
        remaining = list(transition.captures)
        events = tuple(self._event(step, remaining) for step in steps)
        return Script(events, transition.target)

    def _event(self, step: Step, remaining: list[int]) -> EventScript:
        """Return the script of one step, taking its captures off the front of those that remain."""
        event = self._events[step.event]
        calls = [self._call(remaining.pop(0)) for _ in step.runs]
        if event.reset:
            calls.append(Call(remaining.pop(0), (), ()))
        counters = step.after.counters
        fills = tuple((q.name, counters[self._counters[q.counter]]) for q in self.plan.program.queues)
        arrivals = tuple(entry.name for entry in event.inputs if entry.name in self._queues and not event.internal)
        return EventScript(event.name, tuple(calls), arrivals, _emitted(event, self._stages), fills, event.reset)

    def _call(self, index: int) -> Call:
        capture = self.plan.captures[index]
        stage = self._stages[capture.key.stage]
        feeds = tuple(
            self._feed(position, stage.inputs[position].name, form)
            for position, form in enumerate(capture.key.inputs)
            if isinstance(form, TensorForm)
        )
        forms = list(zip(stage.outputs, capture.outputs, strict=True))
        outputs = tuple((i, name) for i, (name, form) in enumerate(forms) if isinstance(form, TensorForm))
        literals = tuple((name, literal_value(form)) for name, form in forms if not isinstance(form, TensorForm))
        return Call(index, feeds, outputs, literals)

    def _feed(self, position: int, name: str, form: TensorForm) -> Feed:
        queue = self._queues.get(name)
        axis = queue.axis if queue else 0
        return Feed(position, name, queue is not None, axis, form.sizes[axis] if queue else 0)


def literal_value(literal: Literal) -> bool | int | None:
    """Return an output or a state leaf that is no tensor."""
    if literal.kind == "bool":
        return literal.text == "true"
    return int(literal.text) if literal.kind == "int" else None


def _emitted(event: Event, stages: Mapping[str, Stage]) -> tuple[str, ...]:
    """Return the names of what an event returns: what it lists, or all outputs that no later stage of it takes."""
    if event.outputs:
        return event.outputs
    names: list[str] = []
    for index, name in enumerate(event.run):
        taken = {entry.name for later in event.run[index + 1 :] for entry in stages[later].inputs}
        names += [output for output in stages[name].outputs if output not in taken and output not in names]
    return tuple(names)
