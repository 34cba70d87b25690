"""Levers: what one edit of the spec would save, worked out by searching the edited program.

An edit is *exact* when the sessions that it leaves possible keep every bit; one that changes what the model hears is
not, and says so. The work is bounded by configurations, never by time, so the same spec has the same levers everywhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from cadence_runtime.errors import CadenceError
from cadence_runtime.host.expression import parse
from cadence_runtime.host.program import Choice, Event, Horizon, Program, Region, Retention
from cadencec.timeline.build import build
from cadencec.timeline.timeline import Timeline

_MOST_CONFIGURATIONS = 30_000
"""Timelines beyond this size are not searched again for every edit."""
_BUDGET = 120_000
"""Configurations that all edits together may reach."""
_LONGEST_GUARD = 900
_HORIZONS_S = (10, 30, 60)


@dataclass(frozen=True, slots=True)
class Size:
    """What a timeline costs: distinct stage keys, and the bytes of all regions at their demand."""

    keys: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Lever:
    """One edit, as it would be written in the spec, and the size of the timeline with it."""

    edit: str
    subject: str
    size: Size
    exact: bool


def size_of(timeline: Timeline) -> Size:
    """Return what a timeline costs."""
    return Size(len(timeline.keys), sum(each.size_bytes for each in timeline.demand))


def levers(timeline: Timeline, most: int = 6) -> tuple[Lever, ...]:
    """Return the edits that save a key, or a hundredth of the bytes; those that save most keys first."""
    if len(timeline.configurations) > _MOST_CONFIGURATIONS:
        return ()
    now, budget = size_of(timeline), _BUDGET
    found = []
    for edit, subject, exact, program in _edits(timeline.program):
        limit = min(budget, 2 * len(timeline.configurations) + 1000)
        try:
            edited = build(program, limit)
        except CadenceError:
            budget -= limit
        else:
            budget -= len(edited.configurations)
            found.append(Lever(edit, subject, size_of(edited), exact))
        if budget <= 0:
            break
    saving = [each for each in found if each.size.keys < now.keys or each.size.size_bytes <= now.size_bytes * 99 // 100]
    return tuple(sorted(saving, key=lambda each: (each.size.keys, each.size.size_bytes))[:most])


def horizons(program: Program) -> tuple[Lever, ...]:
    """Return what an unbounded program costs under a few horizons."""
    found, budget = [], _BUDGET
    for seconds in _HORIZONS_S if program.clocks else ():
        try:
            timeline = build(replace(program, horizon=Horizon("seconds", Fraction(seconds))), budget)
        except CadenceError:
            break
        budget -= len(timeline.configurations)
        found.append(Lever(f"horizon: {seconds} s", "horizon", size_of(timeline), True))
        if budget <= 0:
            break
    return tuple(found)


Edit = tuple[str, str, bool, Program]
"""The text of an edit, its place, whether it is exact, and the edited program."""


def _edits(program: Program) -> Iterator[Edit]:
    yield from _choices(program)
    yield from _windows(program)
    yield from _horizon(program)


def _choices(program: Program) -> Iterator[Edit]:
    """Yield a single value, and multiples, for every choice; events that share one are edited together."""
    shared: dict[Choice, list[str]] = {}
    for event in program.events:
        for choice in event.choices:
            if choice.upper - choice.lower > 1:
                shared.setdefault(choice, []).append(event.name)
    for choice, names in shared.items():
        last, who = choice.upper - 1, ", ".join(f"`{name}`" for name in names)
        subject = f"events.{names[0]}.choose"
        only = replace(choice, lower=last)
        events = [_with_choice(event, choice, only) for event in program.events]
        yield f"choose: {{{choice.name}: {last}..{last}}} in {who}", subject, True, _with_events(program, events)
        step = next((step for step in (10, 8, 5, 4, 3, 2) if last % step == 0 and last > step), None)
        if step is not None:
            guard = f"{choice.name} % {step} == 0"
            events = [_with_guard(event, guard) if event.name in names else event for event in program.events]
            yield f"when: ... and {guard} in {who}", subject, True, _with_events(program, events)


def _with_choice(event: Event, old: Choice, new: Choice) -> Event:
    return replace(event, choices=tuple(new if choice == old else choice for choice in event.choices))


def _with_guard(event: Event, guard: str) -> Event:
    # A guard may be as long as an expression can be, and then has no room for more.
    if event.when is not None and len(event.when.text) > _LONGEST_GUARD:
        return event
    return replace(event, when=parse(f"({event.when}) and {guard}" if event.when else guard))


def _with_events(program: Program, events: list[Event]) -> Program:
    return replace(program, events=tuple(events))


def _windows(program: Program) -> Iterator[Edit]:
    """Yield half the room beyond the start for every window; regions that share one are edited together."""
    shared: dict[tuple[str | None, int, int], list[str]] = {}
    for region in program.regions:
        start, cap = max(region.start, 0), region.retention.cap
        if region.retention.kind == "window" and cap is not None and cap - start > 1:
            shared.setdefault((region.clock, start, cap), []).append(region.name)
    for (_, start, cap), names in shared.items():
        half = start + (cap - start) // 2
        regions = tuple(_with_cap(each, half) if each.name in names else each for each in program.regions)
        who = ", ".join(f"`{name}`" for name in names)
        edit = f"retain: {{window: {half}}} in {who}"
        yield edit, f"regions.{names[0]}.retain", False, replace(program, regions=regions)


def _with_cap(region: Region, cap: int) -> Region:
    return replace(region, retention=Retention("window", cap))


def _horizon(program: Program) -> Iterator[Edit]:
    horizon = program.horizon
    if horizon is not None and horizon.limit > 1:
        half = horizon.limit / 2 if horizon.unit == "seconds" else Fraction(horizon.limit // 2)
        unit = "s" if horizon.unit == "seconds" else "events"
        shorter = replace(program, horizon=Horizon(horizon.unit, half))
        yield f"horizon: {_decimal(half)} {unit}", "horizon", True, shorter


def _decimal(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"
