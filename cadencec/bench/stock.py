"""A session of the stock model as a streaming loop drives it: the model's own calls, and nothing around them."""

import json
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from cadence_runtime.host.program import Program, StageRun, Step
from cadence_runtime.player import Player
from cadence_runtime.queues import Queues
from cadencec.bench.talk import Unit
from cadencec.trace import draws
from cadencec.trace.jobs import Job, Jobs, flatten_outputs
from cadencec.trace.model import HOST
from cadencec.trace.operands import DTYPES
from cadencec.trace.runner import generator_states
from cadencec.trace.state import Sample, Value, flatten
from cadencec.trace.stock import emitted, resets, restore_generators, stage_of

Calls = dict[tuple[str, tuple[int, ...], int | None], Any]


class StockModel:
    """The model of all stock sessions. One with a single `step` is called with its own state, without a detour; stages
    by name are called as the tracer calls them. Generators are kept by session only where the plan draws."""

    def __init__(self, jobs: Jobs, has_draws: bool, device: torch.device = HOST) -> None:
        self.jobs, self.has_draws, self.device = jobs, has_draws, device
        self.calls: Calls = {}
        self._emitted: dict[str, tuple[str, ...]] = {}

    @property
    def program(self) -> Program:
        """The program of its plan."""
        return self.jobs.program

    def job(self, run: StageRun) -> Job:
        """Return a run of a stage as a job, made once."""
        key = (run.stage, run.args, run.index)
        if key not in self.calls:
            self.calls[key] = self.jobs.stage(stage_of(self.program, run), run)
        return self.calls[key]  # type: ignore[no-any-return]

    def emitted(self, event: str) -> tuple[str, ...]:
        """Return the outputs that an event gives its caller, worked out once."""
        if event not in self._emitted:
            found = next(each for each in self.program.events if each.name == event)
            self._emitted[event] = emitted(self.program, found)
        return self._emitted[event]

    def call(self, run: StageRun) -> Callable[..., Any]:
        """Return the model's `step`, made once."""
        key = (run.stage, run.args, run.index)
        if key not in self.calls:
            self.calls[key] = self.jobs.model.stage(stage_of(self.program, run))
        return self.calls[key]  # type: ignore[no-any-return]


class _Rows:
    """What `Queues` asks of a player, on tensors of the host."""

    def shape(self, array: Tensor) -> tuple[int, ...]:
        return tuple(array.shape)

    def rows(self, values: tuple[int, ...], dtype: str, axis: int, rank: int) -> Tensor:
        sizes = [1] * rank
        sizes[axis] = len(values)
        return torch.tensor(values, dtype=DTYPES[dtype]).reshape(sizes)

    def join(self, one: Tensor, other: Tensor, axis: int) -> Tensor:
        return torch.cat([one, other], axis)

    def take(self, array: Tensor, axis: int, lower: int, upper: int) -> Tensor:
        return array.narrow(axis, lower, upper - lower)


class StockTalker:
    """One session of the stock model."""

    def __init__(self, model: StockModel, seed: int) -> None:
        self._model = model
        self._queues = Queues(model.program, cast(Player, _Rows()))
        draws.seed(seed)
        self._begin()
        self._generators = generator_states(self._model.device)

    @property
    def state(self) -> dict[str, Value]:
        """The leaves of the state as they are now, by path, for a comparison."""
        if not self._model.jobs.model.has_stages:
            seen = flatten(self._state, "the state")
            return dict(zip(self._paths, self._model.jobs.leaves.read(seen, "state", None), strict=True))
        return dict(zip(self._paths, self._sample.values, strict=True))

    @property
    def _paths(self) -> tuple[str, ...]:
        return tuple(self._model.jobs.leaves.paths)

    def push(self, unit: Unit) -> list[dict[str, Value]]:
        """Let a unit happen; return what comes out, where it was made, for each of its events that has some."""
        if self._model.has_draws:
            restore_generators(self._generators)
        with torch.no_grad():
            for name, rows in unit.inputs.items():
                if any(queue.name == name for queue in self._model.program.queues):
                    self._queues.arrive(name, rows)
            made = [self._step(step, unit) for step in unit.steps]
        if self._model.has_draws:
            self._generators = generator_states(self._model.device)
        return [outputs for outputs in made if outputs]

    def _begin(self) -> None:
        model = self._model.jobs.model
        with torch.no_grad():
            if model.has_stages:
                outcome = self._model.jobs.start().run(Sample(None, ()), ())
                self._sample = Sample(outcome.template, outcome.values)
            else:
                self._state = model.init_state()

    def _step(self, step: Step, unit: Unit) -> dict[str, Value]:
        passed: dict[str, Value] = {}
        for run in step.runs:
            stage = stage_of(self._model.program, run)
            inputs = tuple(
                passed[item.name] if run.inputs[i] is None else self._given(item.name, run.inputs[i], unit)
                for i, item in enumerate(stage.inputs)
            )
            if not self._model.jobs.model.has_stages:
                call = self._model.call(run)
                self._state, made = call(self._state, dict(zip(stage.args, run.args, strict=True)), inputs)
                outputs = (made,) if isinstance(made, Tensor) else flatten_outputs(made, stage)
            else:
                outcome = self._model.job(run).run(self._sample, inputs)
                self._sample, outputs = Sample(outcome.template, outcome.values), outcome.outputs
            passed.update(zip(stage.outputs, outputs, strict=True))
        self._settle(step)
        return {name: passed[name] for name in self._model.emitted(step.event) if name in passed}

    def _settle(self, step: Step) -> None:
        program = self._model.program
        if not resets(program, step):
            counters = {counter.name: i for i, counter in enumerate(program.counters)}
            self._queues.settle({q.name: step.after.counters[counters[q.counter]] for q in program.queues})
            return
        self._queues.restart()
        model = self._model.jobs.model
        if model.has_stages:
            outcome = self._model.jobs.reset().run(self._sample, ())
            self._sample = Sample(outcome.template, outcome.values)
        else:
            self._state = model.reset(self._state)

    def _given(self, name: str, form: tuple[int, ...] | str | None, unit: Unit) -> Value:
        if isinstance(form, str):
            literal: Value = json.loads(form)
            return literal
        for queue in self._model.program.queues:
            if queue.name == name:
                rows: Tensor = self._queues.front(name, (form or ())[queue.axis])
                return rows.to(self._model.device)
        return unit.inputs[name].to(self._model.device)
