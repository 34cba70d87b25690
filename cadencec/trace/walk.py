"""A random walk of the whole plan beside a fresh stock model, each keeping its own state.

What single tapes cannot show shows here: that forms, slots and nodes fit together over many pushes and resets, and that
the model keeps nothing between steps but its state.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadence_runtime.format.plan import Form, TensorForm, Transition
from cadence_runtime.format.tape import Tape
from cadence_runtime.host.program import StageRun, Step
from cadencec.trace import draws
from cadencec.trace.explore import Exploration
from cadencec.trace.fidelity import difference
from cadencec.trace.interpret import interpret
from cadencec.trace.jobs import Jobs
from cadencec.trace.moves import moves
from cadencec.trace.neutral import neutral
from cadencec.trace.operands import decode_literal
from cadencec.trace.runner import copy_of, generator_states
from cadencec.trace.state import NONE, Value, allocate, copy_bytes, place, view_slot
from cadencec.trace.stock import Given, StockSession, pick_event, resets, restore_generators, stage_of
from cadencec.trace.values import SCALES, random_tensor
from cadencec.trace.weights import Weights

_LEAVES_STOCK = "CAD3705"


@dataclass(frozen=True, slots=True)
class Tapes:
    """An exploration with its finished tapes and what they read."""

    exploration: Exploration
    tapes: Sequence[Tape]
    constant: Callable[[str], Tensor]
    weights: Weights


@dataclass(frozen=True, slots=True)
class Walked:
    """How far a walk went, and how many outputs it compared."""

    events: int
    outputs: int


Note = Callable[[str, Mapping[str, Value]], None]
"""Is told the stage and the outputs of each run that was compared."""


class ReplaySession:
    """A session of the plan by its tapes, interpreted. Leaves stand in slots, as in a plan's state slab."""

    def __init__(self, tapes: Tapes, jobs: Jobs, device: torch.device, seed: int) -> None:
        self.tapes, self.jobs, self.device = tapes, jobs, device
        self._slots = allocate(tapes.exploration.forms, device)
        self._forms: list[Form] = [NONE] * len(jobs.leaves.declared)
        draws.seed(seed)
        self._generators = generator_states(device)
        self._run(tapes.exploration.init, {})

    @property
    def state(self) -> dict[str, Value]:
        """The leaves of the state as they are now, by path."""
        return {path: self._leaf(form) for path, form in zip(self.jobs.leaves.paths, self._forms, strict=True)}

    def _leaf(self, form: Form) -> Value:
        if isinstance(form, TensorForm):
            return view_slot(self._slots[form.slot], form)
        return decode_literal(form, self.device)  # type: ignore[return-value]

    def step(self, step: Step, captures: Sequence[int], given: Given) -> list[dict[str, Value]]:
        """Let one event happen by its captures; return the outputs of each stage run."""
        passed: dict[str, Value] = {}
        outputs: list[dict[str, Value]] = []
        for run, capture in zip(step.runs, captures, strict=False):
            stage = stage_of(self.jobs.program, run)
            inputs = {
                item.name: passed[item.name] if run.inputs[position] is None else given(run, position)
                for position, item in enumerate(stage.inputs)
            }
            outputs.append(self._run(capture, inputs))
            passed.update(outputs[-1])
        for capture in captures[len(step.runs) :]:
            self._run(capture, {})
        return outputs

    def _run(self, index: int, inputs: Mapping[str, Value]) -> dict[str, Value]:
        capture = self.tapes.exploration.captures[index]
        tape, forms = self.tapes.tapes[capture.tape], self.tapes.exploration.forms
        restore_generators(self._generators)
        with neutral():
            outputs, state = interpret(
                tape, inputs, self.state, self.tapes.weights.tensor, self.tapes.constant, self.device
            )
        self._generators = generator_states(self.device)
        kept = tuple(place((form,), (value,))[0] for form, value in zip(capture.outputs, outputs, strict=True))
        new = [copy_of(state[self.jobs.leaves.paths[leaf]]) for leaf, _ in capture.writes]
        for (leaf, form), value in zip(capture.writes, new, strict=True):
            self._forms[leaf] = forms[form]
            target = self._leaf(forms[form])
            if isinstance(target, Tensor) and isinstance(value, Tensor):
                copy_bytes(target, value)
        return {binding.name: value for binding, value in zip(tape.outputs, kept, strict=True)}


@dataclass(slots=True)
class _Inputs:
    """Random inputs of one event, the same for every stage that takes one by the same name."""

    jobs: Jobs
    device: torch.device
    seed: int
    scale: float
    values: dict[str, Value] = field(default_factory=dict)

    def __call__(self, run: StageRun, position: int) -> Value:
        item, given = stage_of(self.jobs.program, run).inputs[position], run.inputs[position]
        if isinstance(given, str):
            literal: Value = json.loads(given)
            return literal
        if item.name not in self.values:
            value = random_tensor(item, given or (), self.seed + len(self.values), self.scale)
            self.values[item.name] = value.to(self.device)
        return self.values[item.name]


def walk(tapes: Tapes, jobs: Jobs, device: torch.device, *, events: int, seed: int, note: Note) -> Walked:
    """Go through at most `events` random pushes and compare every output at once and every leaf at the end.

    Raises TraceError CAD3705 at the first difference, or CAD3706 where there is none once the model runs under the
    modes of a recording.
    """
    stock = StockSession(jobs, device, seed)
    try:
        return _walk(stock, tapes, events, seed, note)
    except TraceError as error:
        if error.code != _LEAVES_STOCK:
            raise
        try:
            _walk(StockSession(jobs, device, seed, natural=False), tapes, events, seed, lambda stage, outputs: None)
        except TraceError:
            raise error from None
        raise _other_mode(error) from None


def _walk(stock: StockSession, tapes: Tapes, events: int, seed: int, note: Note) -> Walked:
    jobs, device = stock.jobs, stock.device
    choose = random.Random(seed)  # noqa: S311
    replay = ReplaySession(tapes, jobs, device, seed)
    path, node, compared = ["init"], 0, 0
    for done in range(events):
        going = [t for t in tapes.exploration.transitions if t.source == node]
        if not going:
            break
        event = pick_event(jobs.program, sorted({t.event for t in going}), choose)
        transition = choose.choice([t for t in going if t.event == event])
        captures = list(transition.captures)
        for position, step in enumerate(_steps(tapes, jobs, transition)):
            given = _Inputs(jobs, device, (seed << 40) + (done << 20) + (position << 10), choose.choice(SCALES))
            size = len(step.runs) + resets(jobs.program, step)
            path.append(step.event)
            expected, got = stock.step(step, given), replay.step(step, captures[:size], given)
            captures = captures[size:]
            for run, ours, theirs in zip(step.runs, got, expected, strict=True):
                _compare(ours, theirs, f"output of `{run.stage}`", path)
                note(run.stage, theirs)
                compared += len(theirs)
        node = transition.target
    _compare(replay.state, stock.state, "state leaf", path)
    return Walked(len(path) - 1, compared)


def _other_mode(error: TraceError) -> TraceError:
    return TraceError(
        "CAD3706",
        "the model gives other bits under its own torch modes than under those of a recording",
        expected="the same bits under `no_grad`, with scripted code unoptimised",
        got=error.got,
        hint="take `torch.inference_mode` out of the model, or let `build` warm scripted code up",
    )


def _steps(tapes: Tapes, jobs: Jobs, transition: Transition) -> tuple[Step, ...]:
    configuration = tapes.exploration.nodes[transition.source].configuration
    found = moves(jobs.program, configuration)
    wanted = (transition.event, transition.choices)
    return next(steps for event, choices, steps in found if (event, choices) == wanted)


def _compare(got: Mapping[str, Value], expected: Mapping[str, Value], what: str, path: Sequence[str]) -> None:
    for name, value in got.items():
        found = difference(value, expected[name])
        if found is not None:
            raise TraceError(
                _LEAVES_STOCK,
                f"the plan leaves the stock model after {len(path) - 1} events: {what} `{name}`",
                expected="the same bits from a fresh model on a random walk",
                got=f"{found}, after {' -> '.join(path[-6:])}",
                hint="the model keeps something between steps that is not in its state",
            )
