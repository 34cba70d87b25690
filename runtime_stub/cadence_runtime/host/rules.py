"""What must hold whenever an event happens, and what is said when it does not.

A spec's loader cannot see these: they depend on the configurations that the timeline reaches.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from cadence_runtime.errors import TimelineError
from cadence_runtime.frozen import frozen
from cadence_runtime.host.expression import ExpressionError, Run
from cadence_runtime.host.program import Event

Env = dict[str, int]


class EventError(TimelineError):
    """An event that contradicts itself at a configuration that can be reached; `subject` is its dotted name in the
    spec, such as `events.chunk.do`, from which a compiler finds the line."""

    subject = ""


def event_error(
    subject: str, code: str, what: str, *, expected: str | None, got: str, at: str | None = None, hint: str
) -> EventError:
    """Return an `EventError` about the part of the spec that `subject` names."""
    error = EventError(code, what, expected=expected, got=got, at=at, hint=hint)
    error.subject = subject
    return error


@frozen
class Rows:
    """What an event does to a queue: `brings` rows join it, `takes` is what a stage sees of its front."""

    queue: str
    counter: str
    position: int
    brings: Run | None
    takes: Run | None


def whole_ticks(ticks: int, rate: Fraction, who: str, event: str) -> int:
    """Return `ticks` of the event's clock in ticks of another that runs `rate` times as fast."""
    moved = ticks * rate.numerator
    if moved % rate.denominator:
        raise event_error(
            f"events.{event}.advance",
            "CAD2004",
            f"{who} does not move by whole ticks in event `{event}`",
            expected=f"{ticks} ticks x {rate} to be a whole number",
            got=str(ticks * rate),
            hint=f"advance by a multiple of {rate.denominator} ticks, or correct a rate in `clocks`",
        )
    return moved // rate.denominator


def check_rows(rows: Rows, before: Sequence[int], after: list[int], env: Env, event: Event) -> None:
    """Hold a queue's counter to the rows that the event brings, and a stage to the rows that are there."""
    held, now = before[rows.position], after[rows.position]
    if rows.takes is not None and not 0 <= rows.takes(env) <= held:
        raise event_error(
            f"events.{event.name}.inputs",
            "CAD2006",
            f"event `{event.name}` takes {rows.takes(env)} rows of queue `{rows.queue}`",
            expected=f"at most the {held} rows that it holds",
            got=f"{rows.takes(env)} rows at {values(env, [rows.counter])}",
            hint=f"guard `{event.name}` with `{rows.counter} >= ...`, or take `min(..., {rows.counter})` rows",
        )
    if event.reset:
        return
    brought = rows.brings(env) if rows.brings is not None else 0
    if rows.brings is not None and (now != held + brought or brought < 0):
        raise event_error(
            f"events.{event.name}.do",
            "CAD2005",
            f"event `{event.name}` brings {brought} rows to queue `{rows.queue}`, but changes its counter otherwise",
            expected=f"`{rows.counter}` to become {held + brought}",
            got=f"{now}",
            hint=f"write `{rows.counter}: {rows.counter} + ...` with the number of rows of input `{rows.queue}`",
        )
    if rows.brings is None and not 0 <= now <= held:
        raise event_error(
            f"events.{event.name}.do",
            "CAD2005",
            f"event `{event.name}` moves the counter of queue `{rows.queue}` to {now}, and brings no rows",
            expected=f"`{rows.counter}` from 0 to {held}, the rows that it holds",
            got=f"{now}",
            hint=f"rows join a queue only by an input named `{rows.queue}` of an external event",
        )


def values(env: Mapping[str, int], names: Sequence[str]) -> str:
    """Return `a = 1, b = 2` for the names, in their order."""
    return ", ".join(f"{name} = {env[name]}" for name in names if name in env) or "no counters"


def no_value(event: Event, error: ExpressionError, env: Env) -> EventError:
    """Return what to say when an expression of an event has no value at a reachable configuration."""
    return event_error(
        f"events.{event.name}",
        "CAD2002",
        f"an expression of event `{event.name}` has no value: {error.what}",
        expected=error.expected,
        got=values(env, sorted(env)),
        at=error.at,
        hint=f"guard `{event.name}` so that it cannot happen there",
    )


def moves_back(event: Event, ticks: int, env: Env) -> EventError:
    """Return what to say when an event would move its clock by less than nothing."""
    clock, expression = event.advance or ("", None)
    return event_error(
        f"events.{event.name}.advance",
        "CAD2003",
        f"event `{event.name}` moves clock `{clock}` back",
        expected=f"`{expression}` to be 0 or more",
        got=f"{ticks} at {values(env, sorted(env))}",
        hint=f"guard `{event.name}` so that it cannot happen there",
    )


def endless(event: Event, env: Env, count: int, repeats: bool) -> EventError:
    """Return what to say when internal events go on for ever, or for longer than anyone means them to."""
    return event_error(
        f"events.{event.name}",
        "CAD2008",
        f"internal event `{event.name}` goes on for ever",
        expected="internal events to come to rest",
        got=f"{'the same configuration again' if repeats else 'no rest'} after {count} of them, at "
        + values(env, sorted(env)),
        hint=f"let `do` of `{event.name}` change what its `when` looks at",
    )


def ambiguous(enabled: Sequence[Event], env: Env, counters: Sequence[str]) -> EventError:
    """Return what to say when two internal events could follow, so that none is certain to."""
    names = ", ".join(f"`{event.name}`" for event in enabled)
    return event_error(
        f"events.{enabled[-1].name}.when",
        "CAD2007",
        f"internal events {names} are enabled at once",
        expected="at most one, so that what follows is certain",
        got=values(env, counters),
        hint=f"add a condition to `when` of `{enabled[-1].name}` that excludes the other",
    )
