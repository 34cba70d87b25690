"""Breadth-first search over configurations: what can be reached, and by which push.

Every configuration is expanded once and every chain of internal events is followed once, so the cost is one host step
for each transition. The order depends on the program alone.
"""

from dataclasses import dataclass, field

from cadence_runtime.host.compiled import CompiledProgram, State
from cadencec.timeline.keys import Projection
from cadencec.timeline.timeline import StageKey, Transition


@dataclass(slots=True)
class Reach:
    """What a search found. `parents` are the transitions by which states were found first (-1 for the start), `rest`
    the states where no internal event is enabled, `peaks` the largest length that each region was left with, also just
    before a reset. `resets` says of each transition whether one of its events resets the session; `complete` is false
    where the limit was met."""

    states: list[State]
    parents: list[int] = field(default_factory=lambda: [-1])
    rest: list[int] = field(default_factory=lambda: [0])
    transitions: list[Transition] = field(default_factory=list)
    resets: bytearray = field(default_factory=bytearray)
    keys: tuple[StageKey, ...] = ()
    peaks: list[int] = field(default_factory=list)
    complete: bool = True

    def path(self, state: int) -> list[int]:
        """Return the transitions that lead from the start to a state at rest, or past one that is not."""
        path = []
        while self.parents[state] >= 0:
            path.append(self.parents[state])
            state = self.transitions[self.parents[state]].source
        return path[::-1]


def reach(ready: CompiledProgram, limit: int) -> Reach:
    """Return what can be reached, or the first `limit` configurations of it.

    Raises `TimelineError` where an event contradicts itself at one of them (CAD2002 to CAD2008, CAD2010).
    """
    return _Search(ready).run(limit)


class _Search:
    """One search. `settled` maps the state after an external event to its rest, the keys on the way and whether it
    was reset there; None where the horizon refuses what would follow."""

    def __init__(self, ready: CompiledProgram) -> None:
        self.ready = ready
        self.projection = Projection(ready.program)
        self.found = Reach([ready.start])
        self.index: dict[State, int] = {ready.start: 0}
        self.settled: dict[State, tuple[int, tuple[int, ...], bool] | None] = {}
        self.first = len(ready.counter_names)
        self.found.peaks = list(ready.start[self.first : -1])

    def run(self, limit: int) -> Reach:
        found, settled = self.found, self.settled
        for source in found.rest:
            for event, choices, (after, runs, written) in self.ready.pushes(found.states[source]):
                if after not in settled:
                    settled[after] = self.settle(after)
                end = settled[after]
                if end is None:
                    continue
                target, following, reset = end
                if written is not after:
                    self.raise_peak(written)
                    reset = True
                keys = self.projection.row(runs, event) + following
                found.transitions.append(Transition(source, event, choices, keys, target))
                found.resets.append(reset)
                if len(found.states) > limit:
                    found.complete = False
                    return self.finish()
        return self.finish()

    def finish(self) -> Reach:
        self.found.keys = tuple(self.projection.keys)
        return self.found

    def settle(self, state: State) -> tuple[int, tuple[int, ...], bool] | None:
        """Follow internal events to the end and note every state on the way, unless the horizon refuses one."""
        passed, written, runs = [], [state], []
        for following, before, fired in self.ready.follow(state):
            if fired is None:
                return None
            passed.append(before)
            state = fired[0]
            runs.append((fired[1], following.index))
            written.append(fired[2])
        for each in passed:
            self.note(each)
        for each in written:
            self.raise_peak(each)
        known = len(self.found.states)
        target = self.note(state)
        if target == known:
            self.found.rest.append(target)
        reset = any(self.ready.program.events[index].reset for _, index in runs)
        return target, tuple(key for run, index in runs for key in self.projection.row(run, index)), reset

    def note(self, state: State) -> int:
        index = self.index.setdefault(state, len(self.found.states))
        if index == len(self.found.states):
            self.found.states.append(state)
            self.found.parents.append(len(self.found.transitions))
        return index

    def raise_peak(self, written: State) -> None:
        self.found.peaks = list(map(max, self.found.peaks, written[self.first : -1]))
