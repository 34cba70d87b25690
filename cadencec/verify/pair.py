"""One session of the plan and one of the stock model, pushed alike."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cadence_runtime.format.plan import Plan
from cadence_runtime.host.program import Configuration, Event, EventInput, Program, StageInput, StageRun, Step
from cadence_runtime.host.step import start
from cadence_runtime.session import LoadedPlan
from cadencec.trace.fidelity import difference
from cadencec.trace.jobs import Jobs
from cadencec.trace.moves import moves
from cadencec.trace.state import Value
from cadencec.trace.stock import StockSession, pick_event, resets, stage_of
from cadencec.trace.values import SCALES, random_tensor
from cadencec.verify.queues import Queues
from cadencec.verify.report import Difference, VerifyReport

LATE = "late"
AT_ONCE = "at once"


@dataclass(slots=True)
class Tally:
    """What was compared so far."""

    plan: Plan
    sessions: int = 0
    events: int = 0
    resets: int = 0
    outputs: int = 0
    leaves: int = 0
    elements: int = 0
    captures: set[int] = field(default_factory=set)
    differences: list[Difference] = field(default_factory=list)

    def report(self, model: str, walks: int) -> VerifyReport:
        """Return the report."""
        return VerifyReport(
            model=model,
            walks=walks,
            sessions=self.sessions,
            events=self.events,
            resets=self.resets,
            outputs=self.outputs,
            leaves=self.leaves,
            elements=self.elements,
            captures=len(self.captures),
            captures_in_plan=len(self.plan.captures),
            differences=tuple(self.differences),
            random_weights=self.plan.provenance.random_weights,
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    """An output of the plan as it was returned, to be looked at again."""

    event: int
    pushed: str
    what: str
    got: Value
    expected: Value


class Pair:
    """Two sessions that must not differ. `has_ended` after a difference, or when no event may happen any more."""

    def __init__(self, name: str, walk: int, loaded: LoadedPlan, jobs: Jobs, seed: int, tally: Tally) -> None:
        self.name, self.walk, self.program, self.tally, self.seed = name, walk, jobs.program, tally, seed
        self.session = loaded.session(seed=seed)
        self.stock = StockSession(jobs, torch.device("cpu"), seed)
        self.queues = Queues(jobs.program)
        self.configuration: Configuration = start(jobs.program)
        self.node, self.pushes, self.pushed = 0, 0, "init"
        self.has_ended = False
        self.kept: list[_Kept] = []
        self.ways = {(t.source, t.event, t.choices): t for t in loaded.plan.transitions}
        tally.sessions += 1
        tally.captures.add(loaded.plan.init)

    def advance(self, choose: random.Random) -> None:
        """Push one random event to both and compare what comes out; end where there is none."""
        by_event: dict[int, list[tuple[tuple[int, ...], tuple[Step, ...]]]] = {}
        for index, choices, steps in moves(self.program, self.configuration):
            by_event.setdefault(index, []).append((choices, steps))
        if not by_event:
            self.has_ended = True
            return
        index = pick_event(self.program, sorted(by_event), choose)
        choices, steps = choose.choice(by_event[index])
        event = self.program.events[index]
        self.pushes, self.pushed = self.pushes + 1, event.name
        if self.plan_draws and choose.random() < 0.1:
            self._seed(choose.randrange(1 << 30))
        inputs = self._inputs(event, choices, choose)
        self._push(event, dict(zip((c.name for c in event.choices), choices, strict=True)), steps, inputs)
        self._count(index, choices, steps)
        self.configuration = steps[-1].after

    @property
    def plan_draws(self) -> bool:
        """Whether the plan draws random numbers at all."""
        return any(tape.draws for tape in self.tally.plan.tapes)

    def finish(self) -> None:
        """Compare kept outputs again, then the state."""
        if not self.has_differed:
            for kept in self.kept:
                self._compare(kept.what, LATE, kept.got, kept.expected, kept.event, kept.pushed)
            state = self.session.state()
            for path, expected in self.stock.state.items():
                self.tally.leaves += 1
                self._compare(f"state leaf `{path}`", "at the end", state[path], expected, self.pushes, self.pushed)
        self.session.close()

    @property
    def has_differed(self) -> bool:
        """Whether a difference was found in this session."""
        return any((d.walk, d.session) == (self.walk, self.name) for d in self.tally.differences)

    def _seed(self, seed: int) -> None:
        self.session.seed(seed)
        self.stock.seed(seed)

    def _push(self, event: Event, choices: Mapping[str, int], steps: Sequence[Step], inputs: Mapping[str, Any]) -> None:
        shown = {name for entry in event.inputs for size in entry.shape for name in size.names}
        values: dict[str, Any] = {name: value for name, value in choices.items() if name not in shown}
        got = iter(self.session.push(event.name, **{**values, **inputs}))
        self.queues.arrive(event, inputs)
        for step in steps:
            expected = self._stock_step(step, inputs)
            if not expected:
                continue
            emitted = next(got, None)
            outputs = {} if emitted is None or emitted.event != step.event else emitted.outputs
            for name, value in expected.items():
                self.tally.outputs += 1
                what = f"output `{name}` of `{step.event}`"
                self.kept.append(_Kept(self.pushes, event.name, what, outputs.get(name), value))
                self._compare(what, AT_ONCE, outputs.get(name), value, self.pushes, event.name)

    def _stock_step(self, step: Step, inputs: Mapping[str, Tensor]) -> dict[str, Value]:
        def given(run: StageRun, position: int) -> Value:
            item, form = stage_of(self.program, run).inputs[position], run.inputs[position]
            if isinstance(form, str):
                literal: Value = json.loads(form)
                return literal
            rows = self.queues.front(item.name, form or ())
            return inputs[item.name] if rows is None else rows

        made = self.stock.step(step, given)
        event = next(event for event in self.program.events if event.name == step.event)
        if event.reset:
            self.queues.restart()
        else:
            self.queues.settle(step.after)
        values = {name: value for outputs in made for name, value in outputs.items()}
        return {name: values[name] for name in _emitted(self.program, event) if name in values}

    def _inputs(self, event: Event, choices: tuple[int, ...], choose: random.Random) -> dict[str, Tensor]:
        """Return random tensors for the event's inputs; literals are left to the event."""
        env = dict(self.program.params) | _counters(self.program, self.configuration)
        env |= dict(zip((choice.name for choice in event.choices), choices, strict=True))
        for name, expression in event.lets:
            env[name] = expression.evaluate(env)
        scale, seed = choose.choice(SCALES), choose.randrange(1 << 40)
        return {
            entry.name: random_tensor(
                _described(self.program, entry), tuple(size.evaluate(env) for size in entry.shape), seed + i, scale
            )
            for i, entry in enumerate(event.inputs)
            if entry.literal is None
        }

    def _compare(self, what: str, when: str, got: object, expected: Value, event: int, pushed: str) -> None:
        if isinstance(expected, Tensor):
            self.tally.elements += expected.numel()
        found = difference(got, expected)
        if found is not None and not self.has_differed:
            self.tally.differences.append(Difference(self.walk, self.name, event, pushed, what, when, found))
            self.has_ended = True

    def _count(self, event: int, choices: tuple[int, ...], steps: Sequence[Step]) -> None:
        transition = self.ways[self.node, event, choices]
        self.node = transition.target
        self.tally.captures.update(transition.captures)
        self.tally.events += 1
        self.tally.resets += sum(resets(self.program, step) for step in steps)


def _counters(program: Program, configuration: Configuration) -> dict[str, int]:
    return dict(zip((counter.name for counter in program.counters), configuration.counters, strict=True))


def _described(program: Program, entry: EventInput) -> StageInput:
    """Return the stage input that an event input feeds, directly or through a queue."""
    found: Iterator[StageInput] = (item for stage in program.stages for item in stage.inputs if item.name == entry.name)
    return next(found)


def _emitted(program: Program, event: Event) -> tuple[str, ...]:
    """Return the outputs that an event gives its caller: those it names, or those that no later stage takes."""
    if event.outputs:
        return event.outputs
    stages = {stage.name: stage for stage in program.stages}
    names: list[str] = []
    for position, run in enumerate(event.run):
        later = {item.name for after in event.run[position + 1 :] for item in stages[after].inputs}
        names += [name for name in stages[run].outputs if name not in later and name not in names]
    return tuple(names)
