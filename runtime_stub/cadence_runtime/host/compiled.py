"""A program with every name resolved to a position, so that a search can take millions of steps.

A configuration becomes one flat tuple of integers, the horizon's part counted in whole units:

    counters ... | region lengths ... | elapsed

Everything that decides what an event means stands in `CompiledEvent.fire` and `CompiledProgram.follow`; `step.py`
dresses them for sessions, and the timeline search calls them as they are.
"""

import itertools
import json
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from cadence_runtime.frozen import frozen
from cadence_runtime.host.expression import ExpressionError, Run
from cadence_runtime.host.program import Clock, Configuration, Event, Program, Region, Stage
from cadence_runtime.host.resolve import check_references
from cadence_runtime.host.rules import Env, Rows, ambiguous, check_rows, endless, moves_back, no_value, whole_ticks

State = tuple[int, ...]
InputForm = tuple[int, ...] | str | None
Fired = tuple[State, "tuple[RawRun, ...]", State]
"""The state after an event, the runs of its stages, and the state before its reset (the same without one)."""

MAX_INTERNAL_EVENTS = 10_000
"""Internal events that one external event may be followed by."""


class RawRun(NamedTuple):
    """One run of a stage at each index of the half-open range `lower`, `upper` (0, 1 without a repeat). A plain tuple
    because searches make and compare them by the million."""

    stage: int
    args: tuple[int, ...]
    lengths: tuple[int, ...]
    inputs: tuple[InputForm, ...]
    lower: int
    upper: int


@frozen
class Growth:
    """A written region: where its length stands in a state, how far its clock moves for each tick of the event's
    clock, and its retention. `cap` is -1 for `grow`."""

    position: int
    name: str
    rate: Fraction
    adds: bool
    cap: int

    def after(self, length: int, ticks: int, event: str) -> int:
        """Return the length once the region was written."""
        if not self.adds:
            return self.cap
        grown = max(length, 0) + whole_ticks(ticks, self.rate, f"region `{self.name}`", event)
        return grown if self.cap < 0 else min(grown, self.cap)


@frozen
class Call:
    """A stage of an event. `first` are the regions whose new length the second index finds already, `last` those that
    are passed row by row and so keep their old length until the last index."""

    stage: int
    count: int
    args: Callable[[Env], tuple[int, ...]]
    reads: Callable[[Sequence[int]], tuple[int, ...]]
    shapes: tuple[tuple[Run, ...] | str | None, ...]
    first: tuple[Growth, ...]
    last: tuple[Growth, ...]
    splits: bool

    def fire(self, env: Env, moved: list[int], ticks: int, event: str) -> tuple[RawRun, ...]:
        """Return the runs of the stage and advance in `moved` what it writes."""
        args, lengths = self.args(env), self.reads(moved)
        inputs = tuple(
            tuple([run(env) for run in shape]) if isinstance(shape, tuple) else shape for shape in self.shapes
        )
        for growth in self.first:
            moved[growth.position] = growth.after(moved[growth.position], ticks, event)
        later = self.reads(moved) if self.splits else lengths
        for growth in self.last:
            moved[growth.position] = growth.after(moved[growth.position], ticks, event)
        if later == lengths:
            return (RawRun(self.stage, args, lengths, inputs, 0, self.count),)
        return (
            RawRun(self.stage, args, lengths, inputs, 0, 1),
            RawRun(self.stage, args, later, inputs, 1, self.count),
        )


@frozen
class CompiledEvent:
    """An event as positions and closures. `cost` is what it adds to the horizon by itself and `tick_cost` what each
    tick of its clock adds."""

    event: Event
    index: int
    guard: Run | None
    guard_reads_choices: bool
    choices: tuple[str, ...]
    ranges: tuple[range, ...]
    lets: tuple[tuple[str, Run], ...]
    ticks: Run | None
    clock_args: tuple[tuple[str, Fraction], ...]
    calls: tuple[Call, ...]
    rows: tuple[Rows, ...]
    effects: tuple[tuple[int, Run], ...]
    restarts: tuple[tuple[int, int], ...]
    cost: int
    tick_cost: int

    def enabled(self, env: Env) -> bool:
        """Whether the guard holds."""
        if self.guard is None:
            return True
        try:
            return self.guard(env) != 0
        except ExpressionError as error:
            raise no_value(self.event, error, env) from None

    def fire(self, state: State, env: Env, start: State, limit: int) -> Fired | None:
        """Return what the event does, or None when the horizon refuses it.

        `env` holds params, counters and choices, and is used up. The guard is not looked at.
        """
        try:
            return self._fire(state, env, start, limit)
        except ExpressionError as error:
            raise no_value(self.event, error, env) from None

    def _fire(self, state: State, env: Env, start: State, limit: int) -> Fired | None:
        for name, run in self.lets:
            env[name] = run(env)
        ticks = self.ticks(env) if self.ticks is not None else 0
        if ticks < 0:
            raise moves_back(self.event, ticks, env)
        elapsed = state[-1] + self.cost + ticks * self.tick_cost
        if elapsed > limit and (self.cost or self.tick_cost):
            return None
        for name, rate in self.clock_args:
            env[name] = whole_ticks(ticks, rate, f"clock `{name}`", self.event.name)
        moved = list(state)
        runs: tuple[RawRun, ...] = ()
        for call in self.calls:
            runs += call.fire(env, moved, ticks, self.event.name)
        values = [run(env) for _, run in self.effects] if not self.event.reset else []
        for (position, _), value in zip(self.effects, values, strict=False):
            moved[position] = value
        for rows in self.rows:
            check_rows(rows, state, moved, env, self.event)
        if self.event.reset:
            return start, runs, tuple(moved)
        for position, length in self.restarts:
            moved[position] = length
        moved[-1] = elapsed
        after = tuple(moved)
        return after, runs, after


class CompiledProgram:
    """A program made ready for many steps. Build it once; it holds no session's state.

    Raises `TimelineError` CAD2001 when a part of the program names something that is not there.
    """

    __slots__ = ("counter_names", "external", "internal", "limit", "params", "program", "start", "unit")

    def __init__(self, program: Program) -> None:
        check_references(program)
        self.program = program
        self.params: Env = dict(program.params)
        self.counter_names = tuple(counter.name for counter in program.counters)
        self.unit, self.limit = _horizon(program)
        self.start: State = (
            *(counter.start for counter in program.counters),
            *(region.start for region in program.regions),
            0,
        )
        events = [_Compiler(program, self.unit).event(i, event) for i, event in enumerate(program.events)]
        self.external = tuple(event for event in events if not event.event.internal)
        self.internal = tuple(event for event in events if event.event.internal)

    def env(self, state: State) -> Env:
        """Return params and counters by name."""
        env = self.params.copy()
        env.update(zip(self.counter_names, state, strict=False))
        return env

    def state(self, configuration: Configuration) -> State:
        """Return a configuration as a flat tuple."""
        elapsed = configuration.elapsed / self.unit if self.unit else Fraction(0)
        return (*configuration.counters, *configuration.lengths, int(elapsed))

    def configuration(self, state: State) -> Configuration:
        """Return a flat tuple as a configuration."""
        split = len(self.counter_names)
        return Configuration(state[:split], state[split:-1], state[-1] * self.unit)

    def pushes(self, state: State) -> Iterator[tuple[int, tuple[int, ...], Fired]]:
        """Yield (event index, choices, what it does) for each external event that may happen, in the order of the
        program and then of the choices; what follows it is left to `follow`."""
        base = self.env(state)
        for event in self.external:
            if not event.guard_reads_choices and not event.enabled(base):
                continue
            for choices in itertools.product(*event.ranges):
                env = base.copy()
                env.update(zip(event.choices, choices, strict=True))
                if event.guard_reads_choices and not event.enabled(env):
                    continue
                fired = event.fire(state, env, self.start, self.limit)
                if fired is not None:
                    yield event.index, choices, fired

    def follow(self, state: State) -> Iterator[tuple[CompiledEvent, State, Fired | None]]:
        """Yield (event, state before, what it does) for each internal event until none is enabled. The last
        one has None for its result where the horizon refuses it."""
        if not self.internal:
            return
        seen = {state}
        while (event := self.next_internal(state)) is not None:
            fired = event.fire(state, self.env(state), self.start, self.limit)
            yield event, state, fired
            if fired is None:
                return
            if fired[0] in seen or len(seen) > MAX_INTERNAL_EVENTS:
                raise endless(event.event, self.env(state), len(seen), fired[0] in seen)
            state = fired[0]
            seen.add(state)

    def next_internal(self, state: State) -> CompiledEvent | None:
        """Return the one internal event that is enabled, if there is one; two at once are an error."""
        env = self.env(state)
        enabled = [event for event in self.internal if event.enabled(env)]
        if len(enabled) > 1:
            raise ambiguous([event.event for event in enabled], env, self.counter_names)
        return enabled[0] if enabled else None


class _Compiler:
    """Resolves the events of one program."""

    def __init__(self, program: Program, unit: Fraction) -> None:
        self.program, self.unit = program, unit
        self.clocks: dict[str, Clock] = {clock.name: clock for clock in program.clocks}
        self.stages: dict[str, tuple[int, Stage]] = {s.name: (i, s) for i, s in enumerate(program.stages)}
        self.counters = {counter.name: i for i, counter in enumerate(program.counters)}
        first = len(program.counters)
        self.regions: dict[str, tuple[int, Region]] = {r.name: (first + i, r) for i, r in enumerate(program.regions)}

    def event(self, index: int, event: Event) -> CompiledEvent:
        horizon = self.program.horizon
        rate = self.clocks[event.advance[0]].rate_hz if event.advance else None
        counts = horizon is not None and horizon.unit == "events"
        timed = horizon is not None and horizon.unit == "seconds" and rate is not None
        choices = tuple(choice.name for choice in event.choices)
        return CompiledEvent(
            event,
            index,
            event.when.run if event.when else None,
            bool(event.when and set(event.when.names) & set(choices)),
            choices,
            tuple(range(choice.lower, choice.upper) for choice in event.choices),
            tuple((name, expression.run) for name, expression in event.lets),
            event.advance[1].run if event.advance else None,
            self.clock_args(event, rate),
            self.calls(event, rate),
            tuple(self.rows(event)),
            tuple((self.counters[name], expression.run) for name, expression in event.effects),
            tuple((self.regions[name][0], self.regions[name][1].start) for name in event.restart),
            int(counts and not event.internal and not is_pure_reset(event)),
            int(1 / rate / self.unit) if timed and rate is not None else 0,
        )

    def clock_args(self, event: Event, rate: Fraction | None) -> tuple[tuple[str, Fraction], ...]:
        """Clocks that stages of the event take as args stand for their ticks, unless a let or counter has the name."""
        named = {name for stage in event.run for name in self.stages[stage][1].args}
        named -= self.counters.keys() | {name for name, _ in event.lets} | {c.name for c in event.choices}
        named -= {name for name, _ in self.program.params}
        return tuple((name, clock.rate_hz / (rate or 1)) for name, clock in self.clocks.items() if name in named)

    def calls(self, event: Event, rate: Fraction | None) -> tuple[Call, ...]:
        written: set[str] = set()
        calls = []
        for name in event.run:
            index, stage = self.stages[name]
            new = [region for region in dict.fromkeys(stage.writes) if region not in written]
            written.update(new)
            repeats = stage.repeat is not None
            first = [region for region in new if not (repeats and region in stage.indexed)]
            last = [region for region in new if region not in first]
            calls.append(
                Call(
                    index,
                    stage.repeat[1] if stage.repeat else 1,
                    picker(stage.args),
                    picker([self.regions[region][0] for region in stage.reads]),
                    tuple(self.shape(event, item.name) for item in stage.inputs),
                    tuple(self.growth(region, rate) for region in first),
                    tuple(self.growth(region, rate) for region in last),
                    repeats and bool(set(first) & set(stage.reads)),
                )
            )
        return tuple(calls)

    def growth(self, name: str, rate: Fraction | None) -> Growth:
        position, region = self.regions[name]
        moves = self.clocks[region.clock].rate_hz / rate if region.clock and rate else Fraction(0)
        kind, cap = region.retention.kind, region.retention.cap
        if region.axis is None:
            cap = 1
        elif kind in {"fixed", "ring"} and cap is None:
            cap = region.start
        return Growth(position, name, moves, kind in {"grow", "window"}, -1 if cap is None or kind == "grow" else cap)

    def shape(self, event: Event, name: str) -> tuple[Run, ...] | str | None:
        for item in event.inputs:
            if item.name == name:
                if item.literal is not None:
                    return json.dumps(item.literal)
                return tuple(size.run for size in item.shape)
        return None

    def rows(self, event: Event) -> Iterator[Rows]:
        inputs = {item.name: item for item in event.inputs}
        changed = {name for name, _ in event.effects}
        for queue in self.program.queues:
            item = inputs.get(queue.name)
            run = item.shape[queue.axis].run if item else None
            brings, takes = (None, run) if event.internal else (run, None)
            if run is not None or queue.counter in changed:
                yield Rows(queue.name, queue.counter, self.counters[queue.counter], brings, takes)


def is_pure_reset(event: Event) -> bool:
    """Whether an event only returns the session to its start, which no horizon may refuse."""
    return event.reset and not event.run and event.advance is None


def picker(names: Sequence[Any]) -> Callable[[Any], tuple[int, ...]]:
    """Return a function that reads `names` off a mapping, or positions off a sequence, as a tuple."""
    if not names:
        return lambda source: ()
    if len(names) == 1:
        (name,) = names
        return lambda source: (source[name],)
    getter: Callable[[Any], tuple[int, ...]] = operator.itemgetter(*names)
    return getter


def _horizon(program: Program) -> tuple[Fraction, int]:
    """Return the horizon's unit in events or seconds, and its limit in whole units; (0, 0) without one."""
    if program.horizon is None:
        return Fraction(0), 0
    if program.horizon.unit == "events":
        return Fraction(1), math.floor(program.horizon.limit)
    unit = Fraction(1, math.lcm(*(clock.rate_hz.numerator for clock in program.clocks)))
    return unit, math.floor(program.horizon.limit / unit)
