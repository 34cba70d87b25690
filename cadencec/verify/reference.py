"""What a session of a plan is held to: a session of the oracle, or of the adapter's own stages run eagerly.

Each has its own place in the random generators, which it takes up before it does anything and leaves behind after it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from cadence_runtime.host.program import Event, StageRun, Step
from cadencec.trace import draws
from cadencec.trace.jobs import Jobs
from cadencec.trace.oracle import Oracle, running
from cadencec.trace.runner import copy_of, generator_states
from cadencec.trace.state import Value
from cadencec.trace.stock import StockSession, emitted, restore_generators, stage_of
from cadencec.verify.queues import Queues

Made = list[dict[str, Value]]
"""The outputs of a push, by name, for each of its events that has some."""

T = TypeVar("T")


class Reference(Protocol):
    """One session. `name` says what it is."""

    name: str

    def seed(self, seed: int) -> None:
        """Seed the session's generators from here on."""

    def push(self, event: Event, values: Mapping[str, Value], steps: Sequence[Step]) -> Made:
        """Let an event happen and return copies of what comes out, on the host; `values` are inputs and choices."""

    def state(self) -> dict[str, Value] | None:
        """Return the leaves of the state by path; None where they are not known."""


class Released:
    """The released loop: the plainest variant of an oracle."""

    name = "the released loop"

    def __init__(self, oracle: Oracle, device: torch.device, seed: int) -> None:
        self._oracle, self._device = oracle, device
        self.seed(seed)
        self._run("start", lambda: oracle.start(oracle.variants[-1]))

    def seed(self, seed: int) -> None:
        draws.seed(seed)
        self._generators = generator_states(self._device)

    def push(self, event: Event, values: Mapping[str, Value], steps: Sequence[Step]) -> Made:
        given = {name: copy_of(value) for name, value in values.items()}
        made = self._run(event.name, lambda: self._oracle.push(event.name, **given))
        return [{name: copy_of(value) for name, value in outputs.items()} for outputs in made]

    def state(self) -> dict[str, Value] | None:
        held: Callable[[], Mapping[str, Value]] | None = getattr(self._oracle, "state", None)
        return None if held is None else dict(held())

    def _run(self, what: str, work: Callable[[], T]) -> T:
        restore_generators(self._generators)
        with running(f"`{what}`"):
            result = work()
        self._generators = generator_states(self._device)
        return result


class Stages:
    """The adapter's own stages, one after the other as the host program says."""

    name = "the model's own stages"

    def __init__(self, jobs: Jobs, device: torch.device, seed: int) -> None:
        self._program, self._device = jobs.program, device
        self._session = StockSession(jobs, device, seed)
        self._queues = Queues(jobs.program)

    def seed(self, seed: int) -> None:
        self._session.seed(seed)

    def push(self, event: Event, values: Mapping[str, Value], steps: Sequence[Step]) -> Made:
        self._queues.arrive(event, values)
        made = [self._step(step, values) for step in steps]
        return [outputs for outputs in made if outputs]

    def state(self) -> dict[str, Value] | None:
        return self._session.state

    def _step(self, step: Step, values: Mapping[str, Value]) -> dict[str, Value]:
        def given(run: StageRun, position: int) -> Value:
            item, form = stage_of(self._program, run).inputs[position], run.inputs[position]
            if isinstance(form, str):
                literal: Value = json.loads(form)
                return literal
            rows = self._queues.front(item.name, form or ())
            value = values[item.name] if rows is None else rows
            return value.to(self._device) if isinstance(value, Tensor) else value

        made = self._session.step(step, given)
        event = next(event for event in self._program.events if event.name == step.event)
        if event.reset:
            self._queues.restart()
        else:
            self._queues.settle(step.after)
        found = {name: value for outputs in made for name, value in outputs.items()}
        return {name: found[name] for name in emitted(self._program, event) if name in found}
