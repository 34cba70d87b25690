"""The Explanation: what a person or a program wants to know of a clock spec, worked out and ready to be shown."""

from collections import Counter as Tally
from dataclasses import dataclass
from fractions import Fraction

from cadence_runtime.errors import TimelineError
from cadence_runtime.host.program import ABSENT, Event, Program, Region, Stage
from cadencec.spec import Spec
from cadencec.timeline import LIMIT, StageKey, Timeline, build
from cadencec.timeline.graph import handed_on
from cadencec.timeline.levers import Lever, Size, horizons, levers, size_of

UNBOUNDED = frozenset({"CAD2101", "CAD2102"})
"""Errors of specs that are explained nevertheless: some models are unbounded by nature."""


@dataclass(frozen=True, slots=True)
class RegionLine:
    """A region: `length` is the largest, in ticks of `clock`, with its bytes; None where no largest one is proven.
    `stock_bytes` is what the released code allocates for it, where that is known."""

    name: str
    leaves: tuple[str, ...]
    dtype: str
    shape: tuple[int | None, ...]
    clock: str | None
    start: int
    retention: str
    read_by: tuple[str, ...]
    written_by: tuple[str, ...]
    length: int | None
    size_bytes: int | None
    stock_bytes: int | None


@dataclass(frozen=True, slots=True)
class StageLine:
    """A stage: its distinct keys, how often it repeats for each, and what it takes tensors from."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    args: tuple[str, ...]
    repeat: tuple[str, int] | None
    after: tuple[str, ...]
    keys: int | None


@dataclass(frozen=True, slots=True)
class EventLine:
    """An event; `pushes` counts the (configuration, choices) pairs at which it may happen, None if internal."""

    name: str
    internal: bool
    when: str | None
    choices: tuple[str, ...]
    runs: tuple[str, ...]
    resets: bool
    pushes: int | None


@dataclass(frozen=True, slots=True)
class Push:
    """One push on the common path, and the key of each stage that it runs."""

    event: str
    choices: tuple[str, ...]
    keys: tuple[StageKey, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """The pushes that warm a session up, then those that repeat for ever; `seconds` is what one round lasts."""

    entry: tuple[Push, ...]
    round: tuple[Push, ...]
    seconds: Fraction


@dataclass(frozen=True, slots=True)
class Note:
    """A finding with its place in the spec."""

    code: str
    what: str
    at: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that follows from a spec. Where a largest size cannot be proven, `problem` says why, what depends on
    it is None or empty, and `levers` are horizons that would bound it."""

    model: str
    spec: str
    clocks: tuple[tuple[str, Fraction], ...]
    cadence_s: Fraction | None
    horizon: str | None
    regions: tuple[RegionLine, ...]
    stages: tuple[StageLine, ...]
    events: tuple[EventLine, ...]
    configurations: int | None
    at_rest: int | None
    transitions: int | None
    size: Size | None
    path: Path | None
    notes: tuple[Note, ...]
    levers: tuple[Lever, ...]
    problem: TimelineError | None


def explain(spec: Spec, *, limit: int = LIMIT) -> Explanation:
    """Return what follows from a spec.

    Raises `TimelineError` for a spec that contradicts itself. One that is only unbounded is explained as such.
    """
    try:
        timeline = build(spec.program, limit, spec.where)
    except TimelineError as error:
        if error.code not in UNBOUNDED:
            raise
        return _explanation(spec, None, horizons(spec.program), error)
    return _explanation(spec, timeline, levers(timeline), None)


def _explanation(
    spec: Spec,
    timeline: Timeline | None,
    found: tuple[Lever, ...],
    problem: TimelineError | None,
) -> Explanation:
    program, stock_bytes = spec.program, dict(spec.stock_bytes)
    return Explanation(
        spec.model.name,
        spec.path,
        tuple((clock.name, clock.rate_hz) for clock in program.clocks),
        program.cadence_s,
        _horizon(program),
        tuple(_region(program, timeline, region, stock_bytes.get(region.name)) for region in program.regions),
        tuple(_stage(program, timeline, stage) for stage in program.stages),
        tuple(_event(timeline, index, event) for index, event in enumerate(program.events)),
        len(timeline.configurations) if timeline else None,
        len(timeline.rest) if timeline else None,
        len(timeline.transitions) if timeline else None,
        size_of(timeline) if timeline else None,
        _path(timeline) if timeline else None,
        _notes(spec, timeline) if timeline else (),
        found,
        problem,
    )


def _horizon(program: Program) -> str | None:
    if program.horizon is None:
        return None
    return f"{program.horizon.limit} {'s' if program.horizon.unit == 'seconds' else 'events'}"


def _region(program: Program, timeline: Timeline | None, region: Region, stock_bytes: int | None) -> RegionLine:
    demand = next((each for each in timeline.demand if each.region == region.name), None) if timeline else None
    kind, cap = region.retention.kind, region.retention.cap
    return RegionLine(
        region.name,
        region.leaves,
        region.dtype,
        region.shape,
        region.clock,
        region.start,
        kind if cap is None or region.axis is None else f"{kind} {cap}",
        tuple(stage.name for stage in program.stages if region.name in stage.reads),
        tuple(stage.name for stage in program.stages if region.name in stage.writes),
        demand.length if demand else None,
        demand.size_bytes if demand else None,
        stock_bytes,
    )


def _stage(program: Program, timeline: Timeline | None, stage: Stage) -> StageLine:
    after = tuple(dict.fromkeys(source for source, target, _ in handed_on(program) if target == stage.name))
    keys = len(timeline.keys_of(stage.name)) if timeline else None
    return StageLine(stage.name, stage.reads, stage.writes, stage.args, stage.repeat, after, keys)


def _event(timeline: Timeline | None, index: int, event: Event) -> EventLine:
    pushes = None
    if timeline and not event.internal:
        pushes = Tally(taken.event for taken in timeline.transitions)[index]
    choices = tuple(f"{choice.name}: {choice.lower}..{choice.upper - 1}" for choice in event.choices)
    when = str(event.when) if event.when else None
    return EventLine(event.name, event.internal, when, choices, event.run, event.reset, pushes)


def _path(timeline: Timeline) -> Path | None:
    cycle = timeline.cycle
    if cycle is None:
        return None
    seconds = max((time for _, time in cycle.seconds), default=Fraction(0))
    entry, round_ = (tuple(_push(timeline, index) for index in part) for part in (cycle.entry, cycle.transitions))
    return Path(entry, round_, seconds)


def _push(timeline: Timeline, index: int) -> Push:
    taken = timeline.transitions[index]
    event = timeline.program.events[taken.event]
    choices = tuple(f"{each.name}={value}" for each, value in zip(event.choices, taken.choices, strict=True))
    return Push(event.name, choices, tuple(timeline.keys[key] for key in taken.keys))


def _notes(spec: Spec, timeline: Timeline) -> tuple[Note, ...]:
    return tuple(Note(each.code, each.what, spec.where(each.subject), each.hint) for each in timeline.findings)


def exit_code(explanation: Explanation) -> int:
    """Return 0, or the exit code of the problem: an unbounded spec is explained, and still cannot be compiled."""
    return explanation.problem.exit_code if explanation.problem else 0


def start_text(start: int) -> str:
    """Return a start length as the spec writes it."""
    return "absent" if start == ABSENT else str(start)
