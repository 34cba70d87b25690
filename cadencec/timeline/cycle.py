"""The steady cycle: what a session does for ever once it has warmed up.

It is the shortest cycle without a reset that runs a stage: first among those that repeat one external event with the
same choices, then, if there are none, among all. A session that its horizon bounds has none.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import networkx as nx

from cadence_runtime.host.compiled import CompiledProgram
from cadence_runtime.host.program import Configuration, Horizon, Program, Step
from cadence_runtime.host.step import push
from cadencec.timeline.search import Reach
from cadencec.timeline.timeline import Cycle, Transition

_MOST_TRANSITIONS = 200_000
"""Beyond these, cycles of more than one event are not looked for: they take memory and explain nothing."""


def steady_cycle(ready: CompiledProgram, found: Reach) -> Cycle | None:
    """Return the steady cycle of a complete search, or None where there is none."""
    round_ = _shortest_repetition(found) or _any_cycle(found)
    if round_ is None:
        return None
    first = found.transitions[round_[0]].source
    return Cycle(tuple(found.path(first)), round_, seconds(ready, found, round_))


def steps_of(ready: CompiledProgram, found: Reach, transitions: tuple[int, ...]) -> Iterator[tuple[Step, Fraction]]:
    """Yield every event of some pushes without reset, and by how many seconds it moves its clock on."""
    timed = replace(ready.program, horizon=Horizon("seconds", Fraction(2**62)))
    for index in transitions:
        taken = found.transitions[index]
        elapsed = Fraction(0)
        for step in _push(timed, ready.configuration(found.states[taken.source]), taken):
            yield step, step.after.elapsed - elapsed
            elapsed = step.after.elapsed


def seconds(ready: CompiledProgram, found: Reach, transitions: tuple[int, ...]) -> tuple[tuple[str, Fraction], ...]:
    """Return by how much time each stage moves on over some pushes, in the order in which stages run."""
    moved: dict[str, Fraction] = {}
    for step, time in steps_of(ready, found, transitions):
        for stage in dict.fromkeys(run.stage for run in step.runs):
            moved[stage] = moved.get(stage, Fraction(0)) + time
    return tuple(moved.items())


def _push(program: Program, configuration: Configuration, taken: Transition) -> tuple[Step, ...]:
    event = program.events[taken.event]
    choices = {choice.name: value for choice, value in zip(event.choices, taken.choices, strict=True)}
    return push(program, replace(configuration, elapsed=Fraction(0)), event.name, choices)


def _shortest_repetition(found: Reach) -> tuple[int, ...] | None:
    """Return the shortest cycle of one event with the same choices; of several, the one that is entered first."""
    maps: dict[tuple[int, tuple[int, ...]], dict[int, int]] = {}
    for index, taken in enumerate(found.transitions):
        if not found.resets[index]:
            maps.setdefault((taken.event, taken.choices), {})[taken.source] = index
    best: tuple[int, int, tuple[int, ...]] | None = None
    for outgoing in maps.values():
        for round_ in _rounds(found, outgoing):
            entry = found.transitions[round_[0]].source
            if any(found.transitions[i].keys for i in round_) and (
                best is None or (len(round_), entry) < (best[0], best[1])
            ):
                best = (len(round_), entry, round_)
    return best[2] if best else None


def _rounds(found: Reach, outgoing: dict[int, int]) -> Iterator[tuple[int, ...]]:
    """Yield the cycles of a map from states to transitions, each from its earliest state."""
    done: dict[int, int] = {}
    for walk, start in enumerate(outgoing):
        state = start
        while state in outgoing and state not in done:
            done[state] = walk
            state = found.transitions[outgoing[state]].target
        if done.get(state) == walk and state in outgoing:
            members = [state]
            while (state := found.transitions[outgoing[state]].target) != members[0]:
                members.append(state)
            first = members.index(min(members))
            yield tuple(outgoing[member] for member in members[first:] + members[:first])


def _any_cycle(found: Reach) -> tuple[int, ...] | None:
    """Return a shortest way around the first transition that runs a stage and lies on a cycle."""
    if len(found.transitions) > _MOST_TRANSITIONS:
        return None
    graph: nx.DiGraph[int] = nx.DiGraph()
    for index, taken in enumerate(found.transitions):
        if not found.resets[index] and not graph.has_edge(taken.source, taken.target):
            graph.add_edge(taken.source, taken.target, transition=index)
    component = {
        state: i for i, members in enumerate(nx.strongly_connected_components(graph)) for state in sorted(members)
    }
    for index, taken in enumerate(found.transitions):
        same = not found.resets[index] and component[taken.source] == component[taken.target]
        if same and taken.keys:
            back = nx.shortest_path(graph, taken.target, taken.source)
            return (index, *(graph.edges[pair]["transition"] for pair in itertools.pairwise(back)))
    return None
