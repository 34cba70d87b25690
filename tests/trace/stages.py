"""Small stages and what the tests do with them: record, replay on other values, compare bit for bit."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cadencec.passes.pipeline import ALL, optimise
from cadencec.trace.bits import copied, copy_into, same_bits
from cadencec.trace.interpret import interpret
from cadencec.trace.recorder import Recording, Weights, collect_weights, record

State = Mapping[str, Any]
Step = Callable[..., tuple[State, Sequence[Any]]]


def fresh(value: Any) -> Any:
    """Copy a leaf or an input, strides included."""
    return copied(value) if isinstance(value, Tensor) else value


def other(value: Any, seed: int = 5) -> Any:
    """Return other values of the same form."""
    if not isinstance(value, Tensor):
        return value
    generator = torch.Generator().manual_seed(seed)
    if value.dtype.is_floating_point or value.dtype.is_complex:
        drawn = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value.dtype)
    else:
        drawn = torch.randint(0, 2, value.shape, generator=generator).to(value.dtype)
    copy = fresh(value)
    copy_into(copy, drawn)
    return copy


def trace(
    step: Step, state: State, *inputs: Any, model: object = None, weights: Weights | None = None, **options: Any
) -> Recording:
    """Record `step(state, *inputs) -> (state, outputs)` as stage `step`, inputs named `x0`, `x1`, ..."""
    names = [f"x{i}" for i in range(len(inputs))]
    held: Any = weights or collect_weights(model)

    def call() -> tuple[Sequence[Any], State]:
        new, outputs = step(dict(state), *inputs)
        return list(outputs), new

    count = options.pop("outputs", 1)
    outputs = [f"y{i}" for i in range(count)]
    return record("step", call, dict(zip(names, inputs, strict=True)), state, held, names=outputs, **options)


def replay(
    recording: Recording,
    weights: Weights,
    state: State,
    *inputs: Any,
    switches: frozenset[str] = ALL,
    device: torch.device | None = None,
) -> Any:
    """Run the optimised tape of a recording; return outputs and new state."""
    program = optimise(recording, weights, switches, device=device)
    names = [binding.name for binding in recording.tape.inputs]
    given = dict(zip(names, inputs, strict=True))
    return interpret(program.tape, given, state, weights.tensor, program.constants.__getitem__, device)


def check_replay(step: Step, state: State, *inputs: Any, model: object = None, **options: Any) -> Recording:
    """Record on copies, replay raw and optimised on other values, and compare with the stage run on these."""
    weights = collect_weights(model)
    kept = {path: fresh(leaf) for path, leaf in state.items()}, [fresh(value) for value in inputs]
    recording = trace(step, kept[0], *kept[1], weights=weights, **options)
    for seed in (5, 6):
        values = {path: other(leaf, seed) for path, leaf in state.items()}, [other(value, seed) for value in inputs]
        for switches in (ALL, frozenset[str]()):
            torch.manual_seed(seed)
            outputs, new = replay(
                recording, weights, values[0], *values[1], switches=switches, device=options.get("device")
            )
            torch.manual_seed(seed)
            with torch.no_grad():
                stock = copy.deepcopy(values)
                want_state, want = step(dict(stock[0]), *stock[1])
            assert len(outputs) == len(want)
            assert all(map(same_bits, outputs, want))
            assert new.keys() == want_state.keys()
            assert all(same_bits(new[path], want_state[path]) for path in new)
    return recording
