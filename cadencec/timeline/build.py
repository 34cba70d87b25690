"""Program -> Timeline: the search with its proofs and diagnoses, or the one error that says why there is none."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cadence_runtime.errors import TimelineError
from cadence_runtime.host.compiled import CompiledProgram
from cadence_runtime.host.program import Program
from cadence_runtime.host.rules import EventError
from cadence_runtime.host.step import compiled
from cadencec.timeline.balance import check_balance
from cadencec.timeline.bounds import prove_growth, suspect_growth
from cadencec.timeline.cycle import steady_cycle
from cadencec.timeline.demand import demand
from cadencec.timeline.diagnosis import check_choices, check_start, findings
from cadencec.timeline.search import Reach, reach
from cadencec.timeline.timeline import Timeline

LIMIT = 200_000
"""Configurations that a search may reach, unless the user says otherwise."""
_PROBE = 2_000
"""Configurations after which growth is looked for the first time: most of it shows by then."""

Where = Callable[[str], str]


def build(program: Program, limit: int = LIMIT, where: Where | None = None) -> Timeline:
    """Return everything that can be proven of a program.

    `where` gives the place in the spec of a dotted name, for messages. Raises `TimelineError` (CAD20xx an event that
    contradicts itself, CAD21xx no end, CAD22xx rates that do not balance).
    """
    try:
        with _no_collection():
            return _build(program, limit)
    except EventError as error:
        raise located(error, where) from None


def located(error: EventError, where: Where | None) -> TimelineError:
    """Return the error with its place in the spec."""
    if where is None or not error.subject:
        return error
    at = where(error.subject) + (f", {error.at}" if error.at else "")
    return TimelineError(error.code, error.what, expected=error.expected, got=error.got, at=at, hint=error.hint)


def _build(program: Program, limit: int) -> Timeline:
    ready = compiled(program)
    check_start(ready)
    check_choices(ready, limit)
    found = _reach(ready, limit)
    cycle = steady_cycle(ready, found)
    return Timeline(
        program,
        tuple(map(ready.configuration, found.states)),
        tuple(found.rest),
        tuple(found.transitions),
        found.keys,
        demand(program.regions, found.peaks),
        cycle,
        (*check_balance(ready, found, cycle), *findings(ready, found)),
    )


def _reach(ready: CompiledProgram, limit: int) -> Reach:
    """Search to the end, and look for proofs that there is none first early and then at the limit."""
    for stop in (min(_PROBE, limit), limit):
        found = reach(ready, stop)
        if found.complete:
            return found
        prove_growth(ready, found)
    raise suspect_growth(ready, found, limit)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the collector from walking millions of tuples that hold no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
