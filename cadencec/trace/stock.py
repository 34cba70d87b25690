"""A session of the stock model: what `push` of a plan must equal, on the tensors that the model itself returned."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from cadence_runtime.host.program import Event, Program, Stage, StageRun, Step
from cadencec.trace import draws
from cadencec.trace.jobs import Job, Jobs
from cadencec.trace.neutral import neutral
from cadencec.trace.runner import copies, copy_of, generator_states
from cadencec.trace.state import Sample, Value

Given = Callable[[StageRun, int], Value]
"""The value that the event gives as a stage's input, by its position."""


class StockSession:
    """One session with its own state and its own place in the random generators.

    Sessions of one model may be interleaved: they share nothing but the model, unless the model keeps state itself.
    `natural` runs it as its users do, with its own `inference_mode` and with scripted code optimised.
    """

    def __init__(self, jobs: Jobs, device: torch.device, seed: int, *, natural: bool = True) -> None:
        self.jobs, self.device = jobs, device
        self._mode: Callable[[], AbstractContextManager[object]] = torch.no_grad if natural else neutral
        self._sample = Sample(None, (None,) * len(jobs.leaves.declared))
        draws.seed(seed)
        self._generators = generator_states(device)
        self._run(jobs.start(), {})

    @property
    def state(self) -> dict[str, Value]:
        """The leaves of the state as they are now, by path."""
        return dict(zip(self.jobs.leaves.paths, self._sample.values, strict=True))

    @property
    def generators(self) -> tuple[Tensor, ...]:
        """Where the session's random generators stand."""
        return self._generators

    def seed(self, seed: int) -> None:
        """Seed the session's generators from here on."""
        draws.seed(seed)
        self._generators = generator_states(self.device)

    def step(self, step: Step, given: Given) -> list[dict[str, Value]]:
        """Let one event happen; return copies of the outputs of each stage run, taken at once."""
        passed: dict[str, Value] = {}
        outputs: list[dict[str, Value]] = []
        for run in step.runs:
            stage = stage_of(self.jobs.program, run)
            inputs = {
                item.name: passed[item.name] if run.inputs[position] is None else given(run, position)
                for position, item in enumerate(stage.inputs)
            }
            made = self._run(self.jobs.stage(stage, run), inputs)
            passed.update(made)
            outputs.append({name: copy_of(value) for name, value in made.items()})
        if resets(self.jobs.program, step):
            self._run(self.jobs.reset(), {})
        return outputs

    def _run(self, job: Job, inputs: Mapping[str, Value]) -> dict[str, Value]:
        restore_generators(self._generators)
        with self._mode():
            outcome = job.run(self._sample, tuple(copies(inputs).values()))
        self._generators = generator_states(self.device)
        self._sample = Sample(outcome.template, outcome.values)
        return dict(zip(job.outputs, outcome.outputs, strict=True))


def stage_of(program: Program, run: StageRun) -> Stage:
    """Return the stage that a run is of."""
    return next(stage for stage in program.stages if stage.name == run.stage)


def pick_event(program: Program, events: Sequence[int], choose: random.Random) -> int:
    """Return one of some events by index; one that only resets comes up rarely, or no walk would go far."""
    weights = [1 if program.events[index].reset and not program.events[index].run else 8 for index in events]
    return choose.choices(events, weights)[0]


def resets(program: Program, step: Step) -> bool:
    """Return whether the event of a step resets the session."""
    return any(event.reset for event in program.events if event.name == step.event)


def restore_generators(states: tuple[Tensor, ...]) -> None:
    """Set the default generators of the host and, with a second state, of the current CUDA device."""
    torch.set_rng_state(states[0])
    for state in states[1:]:
        torch.cuda.set_rng_state(state)


def emitted(program: Program, event: Event) -> tuple[str, ...]:
    """Return the outputs that an event gives its caller: those it names, or those that no later stage takes."""
    if event.outputs:
        return event.outputs
    stages = {stage.name: stage for stage in program.stages}
    names: list[str] = []
    for position, run in enumerate(event.run):
        later = {item.name for after in event.run[position + 1 :] for item in stages[after].inputs}
        names += [name for name in stages[run].outputs if name not in later and name not in names]
    return tuple(names)
