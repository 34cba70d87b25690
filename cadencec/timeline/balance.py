"""Balance of rates over the steady cycle, as in synchronous dataflow, over rationals.

Every way from one push to one second of stream must come to the same product. Where it does not, the two ways that
differ are printed with their fractions:

    1 push x 24000 `mel` ticks of stage `vocode` x 1/50 s = 480 s
    1 push x 1 s of `cadence` = 1 s
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from cadence_runtime.errors import TimelineError
from cadence_runtime.host.compiled import CompiledProgram
from cadence_runtime.host.program import Clock, Program
from cadence_runtime.host.rules import event_error
from cadencec.timeline.cycle import steps_of
from cadencec.timeline.search import Reach
from cadencec.timeline.timeline import Cycle, Finding

_OTHER_UNIT_FROM = 10
"""From this ratio of two clocks on, a mismatch by just that ratio is taken for the wrong unit: 2 or 4 may be meant."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far something moves on in one push: `count` ticks of a clock, or seconds where `clock` is None. `subject` is
    the place in the spec that says so."""

    who: str
    subject: str
    count: Fraction
    clock: Clock | None

    def seconds(self) -> Fraction:
        return self.count / self.clock.rate_hz if self.clock else self.count

    def __str__(self) -> str:
        if self.clock is None:
            return f"1 push x {self.count} s of {self.who} = {self.seconds()} s"
        period = 1 / self.clock.rate_hz
        return f"1 push x {self.count} `{self.clock.name}` ticks of {self.who} x {period} s = {self.seconds()} s"


def check_balance(ready: CompiledProgram, found: Reach, cycle: Cycle | None) -> tuple[Finding, ...]:
    """Return mismatches that may be meant, such as a cadence with slack.

    Raises `TimelineError` CAD2201 for a queue whose rows do not pass at the rate of the clock of its name, and CAD2202
    where ticks of one clock were written and those of another must be meant.
    """
    pushes = cycle.transitions if cycle else _last_push(found)
    if not pushes:
        return ()
    ways = [*_cadence(ready.program), *progress(ready, found, pushes)]
    differing = [way for way in ways if way.seconds() != ways[0].seconds()]
    findings = tuple(_mismatch(ready.program, ways[0], way) for way in differing)
    return findings if cycle else ()


def progress(ready: CompiledProgram, found: Reach, pushes: tuple[int, ...]) -> list[Progress]:
    """Return by how much each queue with a clock of its name, and each stage, moves on in a push, on average."""
    program = ready.program
    clocks = {clock.name: clock for clock in program.clocks}
    advances = {event.name: event.advance for event in program.events}
    rows: dict[str, Fraction] = {}
    ticks: dict[str, tuple[Clock, str, Fraction]] = {}
    counters = ready.configuration(found.states[found.transitions[pushes[0]].source]).counters
    for step, time in steps_of(ready, found, pushes):
        for name, left in _rows_left(program, counters, step.after.counters):
            rows[name] = rows.get(name, Fraction(0)) + left
        counters = step.after.counters
        advance = advances[step.event]
        for stage in dict.fromkeys(run.stage for run in step.runs) if advance and time else ():
            clock, event, count = ticks.get(stage, (clocks[advance[0]], step.event, Fraction(0)))  # type: ignore[index]
            ticks[stage] = (clock, event, count + time * clock.rate_hz)
    share = Fraction(1, len(pushes))
    return [
        *(Progress(f"queue `{q}`", f"queues.{q}", n * share, clocks[q]) for q, n in rows.items() if q in clocks),
        *(Progress(f"stage `{s}`", f"events.{e}.advance", n * share, c) for s, (c, e, n) in ticks.items()),
    ]


def _rows_left(program: Program, before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[tuple[str, int]]:
    positions = {counter.name: i for i, counter in enumerate(program.counters)}
    for queue in program.queues:
        at = positions[queue.counter]
        if after[at] < before[at]:
            yield queue.name, before[at] - after[at]


def _cadence(program: Program) -> Iterator[Progress]:
    if program.cadence_s is not None:
        yield Progress("`cadence`", "cadence", program.cadence_s, None)


def _last_push(found: Reach) -> tuple[int, ...]:
    """Return the last push that runs a stage: the steadiest one of a session that has no cycle."""
    runs = (i for i, taken in enumerate(found.transitions) if taken.keys and not found.resets[i])
    return tuple([*runs][-1:])


def _mismatch(program: Program, first: Progress, other: Progress) -> Finding:
    """Return what differs; raise where it cannot be meant."""
    factor = other.seconds() / first.seconds() if first.seconds() else Fraction(0)
    printed = f"{other}; {first}"
    what = f"{other.who} moves on by {other.seconds()} s a push, and {first.who} by {first.seconds()} s"
    meant = _meant_clock(program, other, factor)
    if meant is not None and other.clock is not None:
        raise _located(
            other,
            "CAD2202",
            what,
            "the same time on every way",
            printed,
            f"{other.count} ticks of `{meant.name}` are {first.seconds()} s: were they meant? of `{other.clock.name}` "
            f"it takes {first.seconds() * other.clock.rate_hz}",
        )
    queue = next((each for each in (first, other) if each.subject.startswith("queues.")), None)
    if queue is not None:
        hint = "correct the rate in `clocks`, or what `do` takes from the queue"
        raise _located(queue, "CAD2201", what, "the same time on every way", printed, hint)
    return Finding("CAD2203", f"{what} ({printed})", other.subject, "correct `cadence`, a rate or an `advance`")


def _meant_clock(program: Program, other: Progress, factor: Fraction) -> Clock | None:
    if other.clock is None or factor == 0 or 1 / _OTHER_UNIT_FROM < factor < _OTHER_UNIT_FROM:
        return None
    return next((clock for clock in program.clocks if clock.rate_hz == other.clock.rate_hz * factor), None)


def _located(at: Progress, code: str, what: str, expected: str, got: str, hint: str) -> TimelineError:
    return event_error(at.subject, code, what, expected=expected, got=got, hint=hint)
