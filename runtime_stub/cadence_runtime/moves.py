"""What may happen to a session next, as arrays that can be pushed, and walks that come by everything.

A walk starts where a session starts. Together the walks of `cover` take every push of the timeline whose captures no
push before it ran, so that each key is run where it really occurs, on a state that can really be there.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cadence_runtime.choices import declared_shapes
from cadence_runtime.errors import SessionError
from cadence_runtime.format.plan import Plan, Transition
from cadence_runtime.frozen import frozen
from cadence_runtime.inputs import intakes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Sizes = tuple[int, ...]


@frozen
class Move:
    """One push: its event, the (dtype, sizes) of its arrays and the values of its choices by name, and the transition
    that it is."""

    event: str
    forms: Mapping[str, tuple[str, Sizes]]
    choices: Mapping[str, int]
    transition: Transition

    def arrays(self, fill: "Callable[[str, str, Sizes], NDArray[np.generic]]") -> dict[str, Any]:
        """Return what to push: an array by `fill(name, dtype, sizes)` for each input, and the choices."""
        return {**{name: fill(name, *form) for name, form in self.forms.items()}, **self.choices}


class Moves:
    """The moves of a plan by node, each worked out when it is first asked for."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._intakes = intakes(plan.program)
        self._leaving: dict[int, list[Transition]] = {}
        for transition in plan.transitions:
            self._leaving.setdefault(transition.source, []).append(transition)

    def leaving(self, node: int) -> Sequence[Transition]:
        """Return the transitions that leave a node."""
        return self._leaving.get(node, ())

    def of(self, transition: Transition) -> Move:
        """Return a transition as a push."""
        program = self.plan.program
        event, configuration = program.events[transition.event], self.plan.nodes[transition.source].configuration
        choices = dict(zip((choice.name for choice in event.choices), transition.choices, strict=True))
        counters = dict(zip((counter.name for counter in program.counters), configuration.counters, strict=True))
        dtypes = self._intakes[event.name].dtypes
        shapes = declared_shapes(event, dtypes, {**dict(program.params), **counters, **choices})
        return Move(event.name, {name: (dtypes[name], shapes[name]) for name in dtypes}, choices, transition)

    def cover(self, limit: int) -> Iterator[list[Transition]]:
        """Yield walks of at most `limit` pushes together, the nearest first; each starts at node 0."""
        seen: set[str] = set()  # captures as text, whose hash no plan can choose
        walk: list[Transition] = []
        while limit > 0:
            leg = self._leg(walk[-1].target if walk else 0, seen)
            if not leg and not walk:
                return
            if not leg:
                yield walk
                walk = []
                continue
            seen.update(str(transition.captures) for transition in leg)
            walk += leg[:limit]
            limit -= len(leg)
        yield walk

    def _leg(self, node: int, seen: set[str]) -> list[Transition]:
        """Return the shortest way from a node through the first push with captures that are new; empty without one."""
        ways: deque[tuple[int, list[Transition]]] = deque([(node, [])])
        met = {node}
        while ways:
            node, way = ways.popleft()
            for transition in self.leaving(node):
                if str(transition.captures) not in seen:
                    return [*way, transition]
                if transition.target not in met:
                    met.add(transition.target)
                    ways.append((transition.target, [*way, transition]))
        return []


def zeros(name: str, dtype: str, sizes: Sizes) -> "NDArray[np.generic]":
    """Return an array of zeros. Raises SessionError CAD7061 for a dtype that numpy does not know."""
    import numpy as np

    return np.zeros(sizes, _dtype(name, dtype))


def _dtype(name: str, dtype: str) -> "np.dtype[np.generic]":
    import numpy as np

    try:
        return np.dtype(dtype)
    except TypeError:
        raise SessionError(
            "CAD7061",
            f"no array can be made for input `{name}`",
            expected="a dtype that numpy knows",
            got=dtype,
            hint="push to the plan from your own code: only rehearsals need arrays made for them",
        ) from None
