"""What the timeline says of a plan's executables: which a push runs, which can run next, and the budgets that follow.

    node 3 -- unit -->  4 7 9        what one push runs has to be there together:       a budget of 4 7 9, or 5 8 9
           -- end  -->  5 8 9        any of them can come next, so to have it ahead:    a budget of 4 5 7 8 9

Executables are named by their graph, sizes are in bytes on the device, as predicted.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from cadence_runtime.cuda.compatibility import arena_bytes, executable_bytes, graph_bytes, kernels_bytes
from cadence_runtime.cuda.driver import DeviceInfo
from cadence_runtime.errors import UsageError
from cadence_runtime.format.cuda import CudaPart
from cadence_runtime.format.plan import Plan, Transition

Graphs = tuple[int, ...]
"""Graphs in the order in which they first run, each once."""


class Needs:
    """`sizes` are of each graph's executable; `captures` has a capture for each graph that some capture runs."""

    def __init__(self, plan: Plan, part: CudaPart) -> None:
        self._plan = plan
        self.sizes = graph_bytes(part)
        self._graphs = [part.launch(capture).graph for capture in range(len(plan.captures))]
        self.captures = {graph: capture for capture, graph in reversed(list(enumerate(self._graphs)))}
        self._leaving: dict[int, list[Transition]] = {}
        for transition in plan.transitions:
            self._leaving.setdefault(transition.source, []).append(transition)
        self._next: dict[int, tuple[Graphs, ...]] = {}
        self.opening = self.of((plan.init,))

    def of(self, captures: Sequence[int]) -> Graphs:
        """Return the graphs of captures."""
        return tuple(dict.fromkeys(self._graphs[capture] for capture in captures))

    def next(self, node: int) -> tuple[Graphs, ...]:
        """Return the graphs of each push that can happen at a node, in the order of the plan."""
        found = self._next.get(node)
        if found is None:
            found = self._next[node] = tuple(self.of(t.captures) for t in self._leaving.get(node, ()))
        return found

    def nearest(self) -> Graphs:
        """Return all graphs that a session can run, those that it can run first before the others."""
        found, nodes, met = dict.fromkeys(self.opening), [0], {0}
        for node in nodes:  # it grows on the way
            for transition in self._leaving.get(node, ()):
                if transition.target not in met:
                    met.add(transition.target)
                    nodes.append(transition.target)
            found.update(dict.fromkeys(chain.from_iterable(self.next(node))))
        return tuple(found)

    def bytes(self, graphs: Iterable[int]) -> int:
        """Return what executables take together, each counted as often as it is given."""
        return sum(self.sizes[graph] for graph in graphs)

    @property
    def push_bytes(self) -> int:
        """The smallest budget: what the largest push runs, or the opening of a session."""
        return self._largest()[0]

    @property
    def ahead_bytes(self) -> int:
        """The smallest budget with which all that one session can run next is always ready ahead."""
        nodes = (self.bytes(set(chain.from_iterable(self.next(node)))) for node in self._leaving)
        return max([self.bytes(self.opening), *nodes])

    def check(self, budget_bytes: int) -> None:
        """Raise UsageError CAD9704 for a budget that does not hold what one push runs."""
        largest, transition = self._largest()
        if budget_bytes < largest:
            raise UsageError(
                "CAD9704",
                "the budget does not hold the executables that one push runs",
                expected=f"at least {largest} bytes, for {self._name(transition)}",
                got=f"{budget_bytes} bytes",
                hint=f"with {self.ahead_bytes} bytes, all that a session can run next is built ahead",
            )

    def _largest(self) -> tuple[int, Transition | None]:
        """Return the size of the largest push and its first transition; None is the opening of a session."""
        found: tuple[int, Transition | None] = (self.bytes(self.opening), None)
        for transition in self._plan.transitions:
            size_bytes = self.bytes(self.of(transition.captures))
            if size_bytes > found[0]:
                found = (size_bytes, transition)
        return found

    def _name(self, transition: Transition | None) -> str:
        if transition is None:
            return "the opening of a session"
        event = self._plan.program.events[transition.event]
        values = zip((choice.name for choice in event.choices), transition.choices, strict=True)
        choices = ", ".join(f"{name} = {value}" for name, value in values)
        return f"`{event.name}`" + (f" with {choices}" if choices else "")


def device_remarks(plan: Plan, part: CudaPart, info: DeviceInfo) -> Iterator[str]:
    """Yield what makes the plan less than it could be on a device that it loads on."""
    needed, free = executable_bytes(part), info.free_bytes - arena_bytes(plan) - (kernels_bytes(plan) or 0)
    if needed > free:
        needs = Needs(plan, part)
        yield (
            f"the executables of all captures take {needed} bytes, and arena and kernels leave {free}: give `load` a"
            f" budget below that. It takes {needs.push_bytes} bytes at least, and {needs.ahead_bytes} to have ready"
            " whatever a session can run next"
        )
