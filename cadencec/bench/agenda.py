"""What one whole session brings, push by push, the same for every side of a comparison, and which pushes are steady.

A push is steady if it can happen again and again within a turn: there is a way from where it leads back to where it
came from, and nothing on it resets the session.

    start --first--> . --unit--> . --unit--> (full) --unit--+       only the last `unit` is steady
                                              ^-------------+
"""

import random
from collections.abc import Iterable, Iterator

import networkx as nx

from cadence_runtime.format.plan import Plan, Transition
from cadence_runtime.moves import Moves
from cadencec.bench.rows import Row
from cadencec.bench.talk import described
from cadencec.bench.tensors import array_of
from cadencec.plan.turns import Push, Timeline, session
from cadencec.trace.stock import pick_event
from cadencec.trace.values import random_tensor

CLOCKLESS_PUSHES = 200
"""The length of a session of a plan whose clocks do not tell one."""


def pushes_of(timeline: Timeline, seconds: float, turns: int, seed: int) -> list[Push]:
    """Return the pushes of a session of at least so many seconds and turns; of a plan without clocks, a random walk."""
    choose = random.Random(f"{seed}/session")  # noqa: S311
    return list(session(timeline, seconds, turns, choose)) or list(_walk(timeline, choose))


def _walk(timeline: Timeline, choose: random.Random) -> Iterator[Push]:
    node = 0
    for _ in range(CLOCKLESS_PUSHES):
        possible = timeline.leaving(node)
        if not possible:
            return
        event = pick_event(timeline.plan.program, sorted({push.transition.event for push in possible}), choose)
        made = choose.choice([push for push in possible if push.transition.event == event])
        yield made
        node = made.transition.target


def steady(timeline: Timeline) -> set[Transition]:
    """Return the transitions that are steady and run something."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    going = []
    for transition in timeline.plan.transitions:
        push = timeline.push(transition)
        if not timeline.resets(push):
            graph.add_edge(transition.source, transition.target)
            going += [transition] if timeline.runs(push) else []
    place = {node: number for number, part in enumerate(nx.strongly_connected_components(graph)) for node in part}
    return {transition for transition in going if place[transition.source] == place[transition.target]}


def rows(plan: Plan, pushes: Iterable[Push], seed: int) -> Iterator[Row]:
    """Yield pushes with their inputs, random tensors from a seed, and with the choices that no shape shows."""
    moves, known = Moves(plan), described(plan)
    numbers = {transition: number for number, transition in enumerate(plan.transitions)}
    for number, push in enumerate(pushes):
        move, event = moves.of(push.transition), plan.program.events[push.transition.event]
        shown = {name for entry in event.inputs for size in entry.shape for name in size.names}
        head = {
            "event": event.name,
            "transition": numbers[push.transition],
            "choices": {name: value for name, value in move.choices.items() if name not in shown},
        }
        inputs = {n: random_tensor(known[n], sizes, (seed << 32) + number) for n, (_, sizes) in move.forms.items()}
        yield Row(head, tuple(array_of(name, value) for name, value in inputs.items()))


def until_first_output(timeline: Timeline, pushes: list[Push]) -> int:
    """Return how many pushes there are up to the first one that runs something."""
    return next((number for number, push in enumerate(pushes, 1) if timeline.runs(push)), len(pushes))
