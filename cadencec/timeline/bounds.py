"""Whether something grows for ever: proven, or suspected when the search meets its limit.

Region lengths never decide what happens next: no expression can name them. So a region is unbounded for certain as soon
as the counters come round to the same values while it has grown and nothing returned it to its start. A counter is, as
soon as a cycle does nothing to it but add a constant and nothing on the way looks at it except through a lower guard.

A configuration that merely exceeds an earlier one proves nothing: `(c + 1) % 16` does that fifteen times in a row.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import networkx as nx

from cadence_runtime.host.compiled import CompiledEvent, CompiledProgram, State
from cadence_runtime.host.rules import Env, EventError, event_error
from cadencec.timeline.increments import only_adds
from cadencec.timeline.search import Reach

_MOST_STATES, _MOST_ANCESTORS = 1000, 16
"""Where a counter's cycle may end, and how many pushes it may have: growth shows early, or hardly ever."""


@dataclass(frozen=True, slots=True)
class Move:
    """One event of a push, external or internal."""

    event: CompiledEvent
    choices: tuple[int, ...]
    before: State
    after: State


def prove_growth(ready: CompiledProgram, found: Reach) -> None:
    """Raise `TimelineError` CAD2101 for a region or counter that a search, complete or not, proves to be unbounded."""
    if ready.program.horizon is None:
        _prove_regions(ready, found)
    _prove_counters(ready, found)


def suspect_growth(ready: CompiledProgram, found: Reach, limit: int) -> EventError:
    """Return CAD2102: the search met its limit, and what grew the longest on the way there."""
    states = [found.states[0], *(found.states[found.transitions[i].target] for i in found.path(found.rest[-1]))]
    first = len(ready.counter_names)
    names = [*ready.counter_names, *(region.name for region in ready.program.regions)]
    rises = [sum(b[i] > a[i] for a, b in itertools.pairwise(states)) for i in range(len(names))]
    what = f"more than {limit} configurations can be reached"
    if not any(rises):
        spread = [len({state[i] for state in found.states}) for i in range(len(names))]
        most = spread.index(max(spread)) if spread else 0
        got = f"`{names[most]}` takes the most values, {spread[most]} of them" if spread else "many choices"
        hint = "raise the limit (`--limit`), or narrow the ranges in `choose`"
        return event_error("", "CAD2102", what, expected="an end", got=got, hint=hint)
    most = rises.index(max(rises))
    path = " -> ".join(str(max(state[most], 0)) for state in states[:4])
    if most < first:
        return event_error(
            f"counters.{names[most]}",
            "CAD2102",
            f"{what}; counter `{names[most]}` is suspected to grow without bound",
            expected="an end",
            got=f"{path} and so on, by {_pushes(ready, found, 3)}",
            hint=f"bound `{names[most]}` in a guard, give a horizon, or raise the limit (`--limit`)",
        )
    return event_error(
        f"regions.{names[most]}",
        "CAD2102",
        f"{what}; region `{names[most]}` is suspected to grow without bound",
        expected="an end",
        got=f"{path} and so on, by {_pushes(ready, found, 3)}",
        hint=_lever(ready),
    )


def _pushes(ready: CompiledProgram, found: Reach, most: int) -> str:
    names = [ready.program.events[found.transitions[i].event].name for i in found.path(found.rest[-1])[:most]]
    return ", ".join(f"`{name}`" for name in names)


def _lever(ready: CompiledProgram) -> str:
    if ready.program.horizon is None:
        return "retain: {window: ...} or horizon: 60 s"
    return "retain: {window: ...}, a shorter horizon, or raise the limit (`--limit`)"


def moves_from(ready: CompiledProgram, state: State) -> Iterator[tuple[Move, ...]]:
    """Yield the events of each push that may happen at a state at rest."""
    events = {event.index: event for event in ready.external}
    for index, choices, fired in ready.pushes(state):
        following = tuple(_following(ready, fired[0]))
        if None not in following:
            yield Move(events[index], choices, state, fired[0]), *filter(None, following)


def _following(ready: CompiledProgram, state: State) -> Iterator[Move | None]:
    """Yield the internal events that follow, and None last where the horizon refuses one."""
    for event, before, fired in ready.follow(state):
        yield Move(event, (), before, fired[0]) if fired else None


# Regions: a cycle over counters along which one grows.


def _prove_regions(ready: CompiledProgram, found: Reach) -> None:
    growing = [i for i, region in enumerate(ready.program.regions) if region.retention.kind == "grow"]
    if not growing:
        return
    moves = [move for state in found.rest for chain in moves_from(ready, found.states[state]) for move in chain]
    for region in growing:
        _prove_region(ready, moves, region)


def _prove_region(ready: CompiledProgram, moves: Sequence[Move], region: int) -> None:
    split = len(ready.counter_names)
    at = split + region
    name = ready.program.regions[region].name
    graph: nx.DiGraph[State] = nx.DiGraph()
    steps = [move for move in moves if not move.event.event.reset and name not in move.event.event.restart]
    for move in steps:
        edge = (move.before[:split], move.after[:split])
        grown = graph.edges[edge]["move"] if graph.has_edge(*edge) else None
        if grown is None or _growth(move, at) > _growth(grown, at):
            graph.add_edge(*edge, move=move)
    component: dict[State, int] = {}
    for i, members in enumerate(nx.strongly_connected_components(graph)):
        component.update(dict.fromkeys(members, i))
    for move in steps:
        source, target = move.before[:split], move.after[:split]
        if _growth(move, at) > 0 and component[source] == component[target]:
            back = nx.shortest_path(graph, target, source)
            round_ = [move, *(graph.edges[pair]["move"] for pair in itertools.pairwise(back))]
            raise _unbounded_region(ready, region, round_)


def _growth(move: Move, at: int) -> int:
    return move.after[at] - max(move.before[at], 0)


def _unbounded_region(ready: CompiledProgram, index: int, round_: Sequence[Move]) -> EventError:
    region, at = ready.program.regions[index], len(ready.counter_names) + index
    growths = {(move.event.event.name, _growth(move, at)) for move in round_ if _growth(move, at) > 0}
    by = next(iter(growths))[1] if len(growths) == 1 else sum(_growth(move, at) for move in round_)
    length = max(round_[0].before[at], 0)
    unit = f"{region.clock}{'' if by == 1 else 's'}" if region.clock else "ticks"
    per = _names([move for move in round_ if _growth(move, at) > 0][: 1 if len(growths) == 1 else None])
    return event_error(
        f"regions.{region.name}",
        "CAD2101",
        f"region `{region.name}` grows {by} {unit} per {per}: {length} -> {length + by} -> {length + 2 * by}",
        expected="a largest length",
        got=f"a cycle that can be repeated for ever: {_names(round_)}",
        hint="retain: {window: ...} or horizon: 60 s",
    )


# Counters: a cycle whose whole effect on them is a constant increment.


def _prove_counters(ready: CompiledProgram, found: Reach) -> None:
    chains = _Chains(ready, found)
    for state in found.rest[:_MOST_STATES]:
        moves: tuple[Move, ...] = ()
        for index in found.path(state)[: -_MOST_ANCESTORS - 1 : -1]:
            moves = chains[index] + moves
            start, end = moves[0].before, found.states[state]
            gains = {name: end[i] - start[i] for i, name in enumerate(ready.counter_names) if end[i] != start[i]}
            same_horizon = start[-1] == end[-1]
            if gains and same_horizon and all(only_adds(ready, m.event, _env(ready, m), gains) for m in moves):
                raise _unbounded_counter(gains, start, ready.counter_names, moves)


class _Chains(dict[int, tuple[Move, ...]]):
    """The events of each transition, worked out when they are asked for."""

    def __init__(self, ready: CompiledProgram, found: Reach) -> None:
        super().__init__()
        self.ready, self.found = ready, found
        self.events = {event.index: event for event in ready.external}

    def __missing__(self, index: int) -> tuple[Move, ...]:
        taken = self.found.transitions[index]
        event, before = self.events[taken.event], self.found.states[taken.source]
        env = self.ready.env(before) | dict(zip(event.choices, taken.choices, strict=True))
        fired = event.fire(before, env, self.ready.start, self.ready.limit)
        after = fired[0] if fired else before
        self[index] = (Move(event, taken.choices, before, after), *filter(None, _following(self.ready, after)))
        return self[index]


def _env(ready: CompiledProgram, move: Move) -> Env:
    return ready.env(move.before) | dict(zip(move.event.choices, move.choices, strict=True))


def _unbounded_counter(
    gains: dict[str, int], start: Sequence[int], counters: Sequence[str], moves: Sequence[Move]
) -> EventError:
    name, by = next(iter(gains.items()))
    value = start[counters.index(name)]
    return event_error(
        f"counters.{name}",
        "CAD2101",
        f"counter `{name}` moves by {by} per {_names(moves)}: {value} -> {value + by} -> {value + 2 * by}",
        expected=f"{'an upper' if by > 0 else 'a lower'} bound",
        got="a cycle that can be repeated for ever, since no guard on it stops " + _list(gains),
        hint=f"bound it: guard with `{name} {'<' if by > 0 else '>'} ...`, or count round with `%`; or horizon: 60 s",
    )


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _names(moves: Sequence[Move]) -> str:
    """Return `first` then `unit` x 3 then ..., cut where nobody would read on."""
    groups = [(name, len(list(same))) for name, same in itertools.groupby(moves, lambda move: move.event.event.name)]
    shown = [f"`{name}`" if count == 1 else f"`{name}` x {count}" for name, count in groups[:6]]
    return " then ".join(shown) + (f" and {len(groups) - 6} more" if len(groups) > 6 else "")
