"""Random talk: what sessions bring, unit after unit, the same for both sides of a comparison.

A talk is a walk over the plan's timeline, drawn from a seed: any event that may happen, one that only resets rarely, as
when a turn is cut short. Inputs come from a few random tensors a form, made beforehand: making them is no part of what
is timed.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from cadence_runtime.format.plan import Plan, Transition
from cadence_runtime.host.program import StageInput, Step
from cadence_runtime.host.step import push
from cadence_runtime.moves import Move, Moves
from cadencec.trace.stock import pick_event
from cadencec.trace.values import random_tensor

VARIANTS = 8
"""Random tensors of each form."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One push: its event, what is pushed by name, and the steps that it leads to."""

    event: str
    inputs: Mapping[str, Tensor]
    choices: Mapping[str, int]
    steps: tuple[Step, ...]


class Talks:
    """Makes talks of a plan."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan, self.seed = plan, seed
        self._moves = Moves(plan)
        self._described = described(plan)
        self._made: dict[Transition, tuple[Unit, ...]] = {}

    def talk(self, who: int) -> Iterator[Unit]:
        """Yield the units of a session for ever; it ends where no event may happen any more."""
        choose = random.Random(f"{self.seed}/{who}")  # noqa: S311
        node = 0
        while leaving := self._moves.leaving(node):
            event = pick_event(self.plan.program, sorted({t.event for t in leaving}), choose)
            transition = choose.choice([t for t in leaving if t.event == event])
            yield choose.choice(self._units(transition))
            node = transition.target

    def phase(self, who: int) -> float:
        """Return when in its cadence a session brings its units, as a share of it."""
        return random.Random(f"{self.seed}/{who}/phase").random()  # noqa: S311

    def _units(self, transition: Transition) -> tuple[Unit, ...]:
        if transition not in self._made:
            move = self._moves.of(transition)
            configuration = self.plan.nodes[transition.source].configuration
            steps = push(self.plan.program, configuration, move.event, move.choices)
            self._made[transition] = tuple(self._unit(move, steps, variant) for variant in range(VARIANTS))
        return self._made[transition]

    def _unit(self, move: Move, steps: tuple[Step, ...], variant: int) -> Unit:
        inputs = {
            name: random_tensor(self._described[name], sizes, self.seed + variant)
            for name, (_, sizes) in move.forms.items()
        }
        return Unit(move.event, inputs, move.choices, steps)


def described(plan: Plan) -> dict[str, StageInput]:
    """Return what is known of each input: as a stage takes it, or as its queue holds it."""
    found = {item.name: item for stage in plan.program.stages for item in stage.inputs}
    return {queue.name: StageInput(queue.name, queue.dtype) for queue in plan.program.queues} | found
