"""What is legal and probably not meant: events and stages that never happen, sessions that get stuck."""

from collections.abc import Iterator

from cadence_runtime.host.compiled import CompiledProgram
from cadence_runtime.host.program import Program
from cadence_runtime.host.rules import event_error
from cadencec.timeline.search import Reach
from cadencec.timeline.timeline import Finding


def check_start(ready: CompiledProgram) -> None:
    """Raise `TimelineError` CAD2009 when an internal event is enabled before anything was pushed: it would happen
    after a reset and not at the start."""
    event = ready.next_internal(ready.start)
    if event is not None:
        name = event.event.name
        raise event_error(
            f"events.{name}.when",
            "CAD2009",
            f"internal event `{name}` is enabled at the start",
            expected="a start where nothing happens before a push",
            got=f"`{event.event.when}`" if event.event.when else "no guard",
            hint="add a counter that the first external event sets, and look at it in `when`",
        )


def check_choices(ready: CompiledProgram, limit: int) -> None:
    """Raise `TimelineError` CAD2103 for an event with more choices than any search could try."""
    for event in ready.external:
        count = 1
        for values in event.ranges:
            count *= len(values)
        if count > limit:
            name = event.event.name
            raise event_error(
                f"events.{name}.choose",
                "CAD2103",
                f"event `{name}` has {count} choices",
                expected=f"at most {limit}, since each needs shapes of its own",
                got=str(count),
                hint="narrow the ranges in `choose`, or raise the limit (`--limit`)",
            )


def findings(ready: CompiledProgram, found: Reach) -> tuple[Finding, ...]:
    """Return what a user should know of a complete search, in the order of the program."""
    happened = _events_that_happen(ready, found)
    return (
        *_dead_events(ready.program, happened),
        *_dead_stages(ready.program, happened),
        *_dead_ends(ready, found),
    )


def _events_that_happen(ready: CompiledProgram, found: Reach) -> frozenset[int]:
    """Return the events on some path. External ones stand in transitions; internal ones are looked for only until
    each was seen."""
    happened = {taken.event for taken in found.transitions}
    missing = {event.index for event in ready.internal}
    passed = sorted(set(range(len(found.states))) - set(found.rest))
    for state in passed:
        if not missing:
            break
        event = ready.next_internal(found.states[state])
        if event is not None:
            missing.discard(event.index)
    return frozenset(happened | ({event.index for event in ready.internal} - missing))


def _dead_events(program: Program, happened: frozenset[int]) -> Iterator[Finding]:
    for index, event in enumerate(program.events):
        if index not in happened:
            guard = f"`when: {event.when}` never holds where it could happen" if event.when else "it is never reached"
            yield Finding("CAD2301", f"event `{event.name}` can never happen: {guard}", f"events.{event.name}")


def _dead_stages(program: Program, happened: frozenset[int]) -> Iterator[Finding]:
    run = {name for index, event in enumerate(program.events) if index in happened for name in event.run}
    for stage in program.stages:
        if stage.name not in run:
            yield Finding("CAD2302", f"stage `{stage.name}` is never run", f"stages.{stage.name}")


def _dead_ends(ready: CompiledProgram, found: Reach) -> Iterator[Finding]:
    """Yield the first configuration that a session cannot leave, though its horizon would let it."""
    leaving = {taken.source for taken in found.transitions}
    for state in found.rest:
        if state not in leaving and not _any_enabled(ready, found, state):
            names = " then ".join(
                f"`{ready.program.events[found.transitions[i].event].name}`" for i in found.path(state)
            )
            where = f"after {names}" if names else "at the start"
            hint = "add an event that resets, such as `turn: {reset: true}`"
            yield Finding("CAD2303", f"nothing can happen any more {where}", "events", hint)
            return


def _any_enabled(ready: CompiledProgram, found: Reach, state: int) -> bool:
    env = ready.env(found.states[state])
    return any(event.guard_reads_choices or event.enabled(env) for event in ready.external)
