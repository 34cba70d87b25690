"""Whether all that a program names is there: a spec's loader has checked it, a plan from outside has not."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from cadence_runtime.errors import TimelineError, raise_all
from cadence_runtime.frozen import frozen
from cadence_runtime.host.expression import Expression
from cadence_runtime.host.program import ABSENT, Event, Program, Queue, Region, Stage

MAX_ERRORS = 20
"""Errors after which nobody reads on."""
MAX_AXIS = 63
RESERVED_STAGES = ("init", "reset")
INT_BITS = {"uint8": 8, "int8": 7, "uint16": 16, "int16": 15, "uint32": 32, "int32": 31, "uint64": 63, "bool": 1}
"""Bits of the largest value of each dtype that cannot hold every int."""


@frozen
class _Names:
    params: frozenset[str]
    clocks: frozenset[str]
    counters: frozenset[str]
    queues: frozenset[str]
    regions: frozenset[str]
    stages: frozenset[str]


def check_references(program: Program) -> None:
    """Raise `TimelineError` CAD2001 for each part of the program that names something which is not there."""
    raise_all(islice(_bad_references(program), MAX_ERRORS))


def _bad_references(program: Program) -> Iterator[TimelineError]:
    names = _Names(
        frozenset(name for name, _ in program.params),
        *(
            frozenset(part.name for part in parts)
            for parts in (program.clocks, program.counters, program.queues, program.regions, program.stages)
        ),
    )
    yield from _twice(program)
    for clock in program.clocks:
        if clock.rate_hz <= 0:
            yield _bad(f"clock `{clock.name}`", "a rate above 0", f"{clock.rate_hz} Hz")
    for region in program.regions:
        yield from _region(region, names)
    for queue in program.queues:
        yield from _missing(f"queue `{queue.name}`", "counter", [queue.counter], names.counters)
        starts = [counter.start for counter in program.counters if counter.name == queue.counter]
        if starts and starts != [len(queue.start)]:
            who, rows = f"queue `{queue.name}`", len(queue.start)
            yield _bad(who, f"counter `{queue.counter}` to start at its {rows} rows", str(starts[0]))
        yield from _queue(queue)
    for stage in program.stages:
        touched = dict.fromkeys([*stage.reads, *stage.writes, *stage.indexed])
        yield from _missing(f"stage `{stage.name}`", "region", touched, names.regions)
        if stage.repeat and stage.repeat[1] < 1:
            yield _bad(f"stage `{stage.name}`", "to repeat once or more", str(stage.repeat[1]))
    by_name = {stage.name: stage for stage in program.stages}
    dtypes = {item.name for stage in program.stages for item in stage.inputs if item.dtype} | names.queues
    for event in program.events:
        yield from _event(event, names, by_name, program)
        yield from _inputs(event, names, dtypes)


def _twice(program: Program) -> Iterator[TimelineError]:
    """A name stands for one thing: who looks it up first and who last must find the same."""
    values = [name for name, _ in program.params]
    values += [clock.name for clock in program.clocks] + [counter.name for counter in program.counters]
    values += [region.name for region in program.regions]
    spaces: dict[str, list[str]] = {
        "the list of values": values,
        "the list of queues": [queue.name for queue in program.queues],
        "the list of stages": [*RESERVED_STAGES, *(stage.name for stage in program.stages)],
        "the list of events": [event.name for event in program.events],
    }
    for stage in program.stages:
        spaces[f"the list of inputs of stage `{stage.name}`"] = [item.name for item in stage.inputs]
        for part in ("outputs", "reads", "writes", "indexed"):
            spaces[f"the list of {part} of stage `{stage.name}`"] = list(getattr(stage, part))
    for event in program.events:
        own = [*(choice.name for choice in event.choices), *(name for name, _ in event.lets)]
        spaces[f"the list of choices and lets of event `{event.name}`"] = own
        spaces[f"the list of inputs of event `{event.name}`"] = [item.name for item in event.inputs]
        spaces[f"the list of stages of event `{event.name}`"] = list(event.run)
        for name in own:
            if name in values:
                yield _bad(f"event `{event.name}`", "names of its own for choices and lets", f"`{name}`")
    for space, listed in spaces.items():
        for name in [name for name, count in Counter(listed).items() if count > 1]:
            yield _bad(space, "each name once", f"`{name}`")


def _queue(queue: Queue) -> Iterator[TimelineError]:
    if not 0 <= queue.axis <= MAX_AXIS:
        yield _bad(f"queue `{queue.name}`", f"an axis from 0 to {MAX_AXIS}", str(queue.axis))
    upper = 2 ** INT_BITS.get(queue.dtype, 63)
    lower = 0 if queue.dtype.startswith(("uint", "bool")) else -upper
    wrong = [value for value in queue.start if not lower <= value < upper]
    if wrong:
        yield _bad(f"queue `{queue.name}`", f"rows of {queue.dtype}", str(wrong[0]))


def _inputs(event: Event, names: _Names, dtypes: frozenset[str] | set[str]) -> Iterator[TimelineError]:
    """What comes from outside has a dtype, and what joins a queue is an array."""
    for item in event.inputs:
        who = f"input `{item.name}` of event `{event.name}`"
        if item.literal is None and item.name not in dtypes:
            yield _bad(who, "a stage or queue that takes it", "none")
        if item.literal is not None and item.name in names.queues:
            yield _bad(who, "rows for its queue", repr(item.literal))


def _region(region: Region, names: _Names) -> Iterator[TimelineError]:
    who = f"region `{region.name}`"
    if region.clock is not None:
        yield from _missing(who, "clock", [region.clock], names.clocks)
    if region.start < ABSENT:
        yield _bad(who, "a start of 0 or more", str(region.start))
    kind, cap = region.retention.kind, region.retention.cap
    if kind == "window" and cap is None:
        yield _bad(who, "a cap for its window", "none")
    if region.axis is not None and cap is not None and cap < 0:
        yield _bad(who, "a cap of 0 or more", str(cap))
    if region.axis is not None and kind in {"fixed", "ring"} and cap is None and region.start == ABSENT:
        yield _bad(who, "a cap, since it is absent at the start", "none")


def _event(event: Event, names: _Names, stages: dict[str, Stage], program: Program) -> Iterator[TimelineError]:
    who = f"event `{event.name}`"
    known = names.params | names.counters | {choice.name for choice in event.choices}
    if event.when is not None:
        yield from _unknown(who, event.when, known)
    for name, expression in event.lets:
        yield from _unknown(who, expression, known)
        known |= {name}
    if event.advance is not None:
        yield from _missing(who, "clock", [event.advance[0]], names.clocks)
        yield from _unknown(who, event.advance[1], known)
    for name, expression in event.effects:
        yield from _missing(who, "counter", [name], names.counters)
        yield from _unknown(who, expression, known)
    yield from _missing(who, "region", event.restart, names.regions)
    yield from _missing(who, "stage", event.run, names.stages)
    for name in event.run:
        if name in stages:
            yield from _missing(f"stage `{name}` in {who}", "arg", stages[name].args, known | names.clocks)
    if event.internal and event.choices:
        yield _bad(who, "no choices, since nobody picks them for an internal event", f"`{event.choices[0].name}`")
    ranks = {queue.name: queue.axis for queue in program.queues}
    for item in event.inputs:
        for size in item.shape:
            yield from _unknown(who, size, known)
        axis = ranks.get(item.name)
        if axis is not None and not -len(item.shape) <= axis < len(item.shape):
            yield _bad(f"input `{item.name}` of {who}", f"an axis {axis}, along which its queue grows", "none")


def _missing(who: str, kind: str, wanted: Iterable[str], there: frozenset[str]) -> Iterator[TimelineError]:
    for name in wanted:
        if name not in there:
            yield _bad(who, _one_of(there, f"a {kind}"), f"{kind} `{name}`")


def _unknown(who: str, expression: Expression, known: frozenset[str]) -> Iterator[TimelineError]:
    for name in expression.names:
        if name not in known:
            yield _bad(who, _one_of(known, "a name"), f"`{name}` in `{expression}`")


def _one_of(names: Iterable[str], otherwise: str) -> str:
    listed = ", ".join(f"`{name}`" for name in sorted(names))
    return f"one of {listed}" if listed else f"{otherwise} that exists"


def _bad(who: str, expected: str, got: str) -> TimelineError:
    return TimelineError("CAD2001", f"{who} does not fit the rest of its program", expected=expected, got=got)
