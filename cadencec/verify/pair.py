"""One session of the plan and its references, pushed alike."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from torch import Tensor

from cadence_runtime.format.plan import Plan
from cadence_runtime.host.program import Configuration, Event, EventInput, Program, StageInput, Step
from cadence_runtime.host.step import start
from cadence_runtime.session import LoadedPlan
from cadencec.plan.turns import Push, environment, seconds_of
from cadencec.trace.fidelity import difference
from cadencec.trace.moves import moves
from cadencec.trace.oracle import check_names
from cadencec.trace.state import Value
from cadencec.trace.stock import pick_event, resets
from cadencec.trace.values import SCALES, random_tensor
from cadencec.verify.border import handed, received
from cadencec.verify.reference import Made, Reference
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
    seconds: Fraction = Fraction(0)
    against: list[str] = field(default_factory=list)
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
            seconds=float(self.seconds),
            against=tuple(self.against),
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    """An output of the plan as it was returned, to be looked at again."""

    event: int
    pushed: str
    what: str
    against: str
    got: object
    expected: Value


class Pair:
    """A session and its references, which must not differ. `has_ended` after a difference, or when no event may happen
    any more."""

    def __init__(
        self, name: str, walk: int, loaded: LoadedPlan, references: Sequence[Reference], seed: int, tally: Tally
    ) -> None:
        self.name, self.walk, self.program, self.tally = name, walk, loaded.plan.program, tally
        self.session, self.references = loaded.session(seed=seed), references
        self.configuration: Configuration = start(self.program)
        self.node, self.pushes, self.pushed = 0, 0, "init"
        self.has_ended = False
        self.kept: list[_Kept] = []
        self.ways = {(t.source, t.event, t.choices): t for t in loaded.plan.transitions}
        tally.sessions += 1
        tally.against += [each.name for each in references if each.name not in tally.against]
        tally.captures.add(loaded.plan.init)

    def advance(self, choose: random.Random) -> None:
        """Push one random event and compare what comes out; end where there is none."""
        by_event: dict[int, list[tuple[tuple[int, ...], tuple[Step, ...]]]] = {}
        for index, choices, steps in moves(self.program, self.configuration):
            by_event.setdefault(index, []).append((choices, steps))
        if not by_event:
            self.has_ended = True
            return
        index = pick_event(self.program, sorted(by_event), choose)
        choices, steps = choose.choice(by_event[index])
        self._happen(index, choices, steps, choose)

    def follow(self, pushes: Iterator[Push], choose: random.Random) -> None:
        """Push the next of some pushes and compare what comes out; end where there is none."""
        push = next(pushes, None)
        if push is None:
            self.has_ended = True
            return
        self._happen(push.transition.event, push.transition.choices, push.steps, choose)

    def _happen(self, index: int, choices: tuple[int, ...], steps: tuple[Step, ...], choose: random.Random) -> None:
        event = self.program.events[index]
        self.pushes, self.pushed = self.pushes + 1, event.name
        if self.plan_draws and choose.random() < 0.1:
            self._seed(choose.randrange(1 << 30))
        self._push(event, steps, self._inputs(event, steps[0], choose))
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
                self._compare(kept.what, LATE, kept.against, kept.got, kept.expected, (kept.event, kept.pushed))
            self._compare_state()
        self.session.close()

    def _compare_state(self) -> None:
        state = self.session.state()
        for reference in self.references:
            for path, expected in (reference.state() or {}).items():
                self.tally.leaves += 1
                self._compare(f"state leaf `{path}`", "at the end", reference.name, state.get(path), expected)

    @property
    def has_differed(self) -> bool:
        """Whether a difference was found in this session."""
        return any((d.walk, d.session) == (self.walk, self.name) for d in self.tally.differences)

    def _seed(self, seed: int) -> None:
        self.session.seed(seed)
        for reference in self.references:
            reference.seed(seed)

    def _push(self, event: Event, steps: Sequence[Step], inputs: Mapping[str, Tensor]) -> None:
        shown = {name for entry in event.inputs for size in entry.shape for name in size.names}
        chosen = dict(zip((choice.name for choice in event.choices), steps[0].choices, strict=True))
        values: dict[str, Value] = {name: value for name, value in chosen.items() if name not in shown}
        values |= inputs
        target = self.tally.plan.target
        given: dict[str, Any] = {name: handed(value, target) for name, value in values.items()}
        got = [(record.event, record.outputs) for record in self.session.push(event.name, **given)]
        for reference in self.references:
            self._hold(reference.name, event.name, got, reference.push(event, values, steps))

    def _hold(self, against: str, pushed: str, got: list[tuple[str, Mapping[str, Any]]], expected: Made) -> None:
        """Compare the outputs of a push with those of a reference, one by one and in number."""
        if len(got) != len(expected):
            self._compare(f"the number of outputs of `{pushed}`", AT_ONCE, against, len(got), len(expected))
            return
        for (event, outputs), wanted in zip(got, expected, strict=True):
            check_names(against, event, tuple(outputs), tuple(wanted))
            for name, right in wanted.items():
                self.tally.outputs += 1
                what = f"output `{name}` of `{event}`"
                self.kept.append(_Kept(self.pushes, pushed, what, against, outputs[name], right))
                self._compare(what, AT_ONCE, against, outputs[name], right)

    def _inputs(self, event: Event, step: Step, choose: random.Random) -> dict[str, Tensor]:
        """Return random tensors for the event's inputs; literals are left to the event."""
        env = environment(self.program, self.configuration, step)
        scale, seed = choose.choice(SCALES), choose.randrange(1 << 40)
        return {
            entry.name: random_tensor(
                _described(self.program, entry), tuple(size.evaluate(env) for size in entry.shape), seed + i, scale
            )
            for i, entry in enumerate(event.inputs)
            if entry.literal is None
        }

    def _compare(
        self, what: str, when: str, against: str, got: object, expected: Value, at: tuple[int, str] | None = None
    ) -> None:
        if isinstance(expected, Tensor):
            self.tally.elements += expected.numel()
            expected = expected.cpu()
        found = difference(received(got, expected), expected)
        if found is not None and not self.has_differed:
            event, pushed = at or (self.pushes, self.pushed)
            self.tally.differences.append(
                Difference(self.walk, self.name, event, pushed, what, when, found, against=against)
            )
            self.has_ended = True

    def _count(self, event: int, choices: tuple[int, ...], steps: tuple[Step, ...]) -> None:
        transition = self.ways[self.node, event, choices]
        self.node = transition.target
        self.tally.captures.update(transition.captures)
        self.tally.events += 1
        self.tally.resets += sum(resets(self.program, step) for step in steps)
        self.tally.seconds += seconds_of(self.program, self.configuration, steps)


def _described(program: Program, entry: EventInput) -> StageInput:
    """Return the stage input that an event input feeds, directly or through a queue."""
    found: Iterator[StageInput] = (item for stage in program.stages for item in stage.inputs if item.name == entry.name)
    return next(found)
