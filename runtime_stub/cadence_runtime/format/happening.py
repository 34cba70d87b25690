"""What an event does, the plain way: the closure checker's own reading of a program.

It follows the docstrings of `host/program.py` word for word, with names in dicts and times in fractions, and shares no
code with the host step. It is slow, and meant to be.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from cadence_runtime.format.plan import RESET, Node
from cadence_runtime.frozen import frozen
from cadence_runtime.host.program import Event, Program, Queue, Region

MAX_FOLLOWING = 10_000
"""Internal events that may follow one push."""


MAX_CALLS = 100_000
"""Stage runs of one push."""
NO_NAMES: Mapping[str, int] = MappingProxyType({})


class WrongProgramError(Exception):
    """The program contradicts itself at a node; the checker says so as a PlanError."""


class TooMuchWorkError(Exception):
    """More events happen than anyone could wait for."""


class Budget:
    """How much work is left; a plan from elsewhere must not keep its checker busy for ever. To ask whether an event may
    happen costs its names and the letters of its guard; to let it happen costs what is looked at then: names, letters
    of expressions, stages, and the guards of all that may follow."""

    def __init__(self, program: Program, units: int) -> None:
        self._left = units
        names = len(program.params) + len(program.counters)
        self._guards = {id(event): names + (len(event.when.text) if event.when else 0) for event in program.events}
        self._around = len(program.regions)
        followers = sum(self._guards[id(event)] for event in program.events if event.internal)
        self._costs = {id(event): followers + names + _cost(program, event) for event in program.events}

    def spend(self, units: int) -> None:
        """Count some work. Raises TooMuchWorkError."""
        self._left -= units
        if self._left < 0:
            raise TooMuchWorkError

    def ask(self, event: Event) -> None:
        """Count the guard of a push, and the session that it is asked of."""
        self.spend(self._guards[id(event)] + self._around)

    def happen(self, event: Event) -> None:
        """Count one event that happens."""
        self.spend(self._costs[id(event)])


def _cost(program: Program, event: Event) -> int:
    """Return what an event costs by itself."""
    expressions = [each for _, each in (*event.lets, *event.effects)]
    expressions += [size for item in event.inputs for size in item.shape]
    expressions += [event.advance[1]] if event.advance else []
    expressions += [event.when] if event.when else []
    stages = {stage.name: stage for stage in program.stages}
    run = [stages[name] for name in event.run]
    around = len(program.stages) + len(event.inputs) + len(program.counters)
    runs = sum((stage.repeat[1] if stage.repeat else 1) * (around + len(stage.inputs)) for stage in run)
    parts = len(program.clocks) + len(program.regions) + len(event.choices)
    parts += sum(len(stage.args) + len(stage.writes) for stage in run)
    parts += len(program.queues) * (1 + 2 * len(event.inputs)) + len(event.restart) * len(program.regions)
    return parts + sum(len(each.text) for each in expressions) + min(runs, MAX_CALLS * around)


@frozen
class Call:
    """A stage that must run, at an index where it repeats; or the model's reset (`stage` is then RESET)."""

    stage: str
    args: tuple[int, ...] = ()
    event: Event | None = None
    env: Mapping[str, int] = NO_NAMES
    index: int | None = None


@frozen
class Session:
    """Counters and lengths by name, and how much of the horizon is used."""

    counters: dict[str, int]
    lengths: dict[str, int]
    elapsed: Fraction


def start(program: Program) -> Session:
    """Return where every session starts and a reset leads."""
    counters = {counter.name: counter.start for counter in program.counters}
    return Session(counters, {region.name: region.start for region in program.regions}, Fraction(0))


def session_at(program: Program, node: Node) -> Session:
    """Return a node's configuration by name."""
    counters = [counter.name for counter in program.counters]
    regions = [region.name for region in program.regions]
    return Session(
        dict(zip(counters, node.configuration.counters, strict=True)),
        dict(zip(regions, node.configuration.lengths, strict=True)),
        node.configuration.elapsed,
    )


def push(
    program: Program, node: Node, event: Event, choices: tuple[int, ...], budget: Budget | None = None
) -> tuple[Session, list[Call]] | None:
    """Return where a push leads and what it runs; None where it may not happen."""
    if budget is not None:
        budget.ask(event)
    session = session_at(program, node)
    given = {choice.name: value for choice, value in zip(event.choices, choices, strict=True)}
    if not _holds(program, session, event, given):
        return None
    calls: list[Call] = []
    for _ in range(MAX_FOLLOWING):
        if budget is not None:
            budget.happen(event)
        after = _happen(program, session, event, given, calls)
        if after is None:
            return None
        session, given = after, {}
        following = [e for e in program.events if e.internal and _holds(program, session, e, {})]
        if not following:
            return session, calls
        if len(following) > 1:
            raise WrongProgramError("internal events " + ", ".join(f"`{e.name}`" for e in following) + " at once")
        event = following[0]
    raise WrongProgramError(f"more than {MAX_FOLLOWING} internal events follow")


def _env(program: Program, session: Session, given: Mapping[str, int]) -> dict[str, int]:
    return {**dict(program.params), **session.counters, **given}


def _holds(program: Program, session: Session, event: Event, given: Mapping[str, int]) -> bool:
    return event.when is None or event.when.evaluate(_env(program, session, given)) != 0


def _happen(
    program: Program, session: Session, event: Event, given: Mapping[str, int], calls: list[Call]
) -> Session | None:
    """Return the session after one event and add what it runs to `calls`; None where the horizon refuses it."""
    env = _env(program, session, given)
    for name, expression in event.lets:
        env[name] = expression.evaluate(env)
    ticks = {clock.name: Fraction(0) for clock in program.clocks}
    time = Fraction(0)
    if event.advance is not None:
        rates = {clock.name: clock.rate_hz for clock in program.clocks}
        time = event.advance[1].evaluate(env) / rates[event.advance[0]]
        ticks = {name: time * rate for name, rate in rates.items()}
    if time < 0:
        raise WrongProgramError("a clock moves back")
    elapsed = _elapsed(program, session, event, time)
    if elapsed is None:
        return None
    lengths = _run_stages(program, session, event, env, ticks, calls)
    _check_takes(program, session, event, env)
    if event.reset:
        calls.append(Call(RESET))
        return start(program)
    counters = {**session.counters, **{name: effect.evaluate(env) for name, effect in event.effects}}
    _check_fills(program, session, counters, event, env)
    for name in event.restart:
        lengths[name] = next(region.start for region in program.regions if region.name == name)
    return Session(counters, lengths, elapsed)


def _elapsed(program: Program, session: Session, event: Event, time: Fraction) -> Fraction | None:
    horizon = program.horizon
    only_resets = event.reset and not event.run and event.advance is None
    if horizon is None or (horizon.unit == "events" and (event.internal or only_resets)):
        return session.elapsed
    elapsed = session.elapsed + (1 if horizon.unit == "events" else time)
    if max(elapsed.numerator, elapsed.denominator) >= 2**63:
        raise WrongProgramError("the used part of the horizon does not fit 63 bits")
    return elapsed if elapsed <= horizon.limit or elapsed == session.elapsed else None


def _run_stages(
    program: Program,
    session: Session,
    event: Event,
    env: Mapping[str, int],
    ticks: Mapping[str, Fraction],
    calls: list[Call],
) -> dict[str, int]:
    """Add the stages to `calls`, once for each index, and return the lengths that they leave behind."""
    written: set[str] = set()
    for name in event.run:
        stage = next(stage for stage in program.stages if stage.name == name)
        args = tuple(env[arg] if arg in env else _whole(ticks[arg]) for arg in stage.args)
        indices: Sequence[int | None] = range(stage.repeat[1]) if stage.repeat else (None,)
        if len(calls) + len(indices) > MAX_CALLS:
            raise WrongProgramError(f"more than {MAX_CALLS} stage runs follow")
        calls += [Call(name, args, event, env, index) for index in indices]
        written.update(stage.writes)
    return {
        region.name: _grown(region, session.lengths[region.name], ticks)
        if region.name in written
        else session.lengths[region.name]
        for region in program.regions
    }


def _grown(region: Region, length: int, ticks: Mapping[str, Fraction]) -> int:
    cap = region.retention.cap
    if region.axis is None:
        return 1
    if region.retention.kind in {"fixed", "ring"}:
        return region.start if cap is None else cap
    grown = max(length, 0) + (_whole(ticks[region.clock]) if region.clock is not None else 0)
    return min(grown, cap) if region.retention.kind == "window" and cap is not None else grown


def _whole(ticks: Fraction) -> int:
    if ticks.denominator != 1:
        raise WrongProgramError(f"a clock moves by {ticks} ticks")
    return ticks.numerator


def _check_takes(program: Program, session: Session, event: Event, env: Mapping[str, int]) -> None:
    """An internal event cannot hand on more rows of a queue than it holds."""
    for queue in program.queues:
        held, rows = session.counters[queue.counter], _rows(queue, event, env)
        if event.internal and rows is not None and not 0 <= rows <= held:
            raise WrongProgramError(f"{rows} of {held} rows are taken from queue `{queue.name}`")


def _check_fills(
    program: Program, session: Session, counters: Mapping[str, int], event: Event, env: Mapping[str, int]
) -> None:
    """A counter goes up by the rows that an external event brings, and otherwise only down, to no less than 0."""
    for queue in program.queues:
        held, now, rows = session.counters[queue.counter], counters[queue.counter], _rows(queue, event, env)
        brings = rows is not None and not event.internal
        if not (now == held + (rows or 0) >= held if brings else 0 <= now <= held):
            raise WrongProgramError(f"queue `{queue.name}` holds {held} rows, its counter becomes {now}")


def _rows(queue: Queue, event: Event, env: Mapping[str, int]) -> int | None:
    shape = next((item.shape for item in event.inputs if item.name == queue.name), None)
    return shape[queue.axis].evaluate(env) if shape else None
