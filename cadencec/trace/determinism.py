"""Is the stock model equal to itself? If not, nothing can be equal to it, and the op to blame is named.

A run that differs from a second one on the same bits is taken apart: each op of the tape runs several times on the same
operands, and the first whose results differ is named with the lever that makes it deterministic.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadence_runtime.format.tape import Op, Tape
from cadencec.trace import draws
from cadencec.trace.effects import base_name, effects_of
from cadencec.trace.fidelity import difference
from cadencec.trace.interpret import Memory, prepare
from cadencec.trace.neutral import neutral
from cadencec.trace.operands import resolve, views_of
from cadencec.trace.recorder import Recording
from cadencec.trace.runner import Execution, generator_states
from cadencec.trace.stock import restore_generators
from cadencec.trace.watch import first_difference, needed_results
from cadencec.trace.weights import Weights

TRIES = 8
"""How often an op, or a model that failed to replay, runs on the same operands before it counts as deterministic."""

_CUDNN = "numerics: {cudnn_deterministic: true}"
_ALGORITHMS = "numerics: {deterministic_algorithms: true}"
_LEVERS = {"convolution": _CUDNN, "cudnn_convolution": _CUDNN, "_cudnn_rnn": _CUDNN, "convolution_backward": _CUDNN}


def check_deterministic(
    recording: Recording, weights: Weights, execution: Execution, device: torch.device, *, tries: int = 1
) -> None:
    """Run the stock model again. Raises TraceError CAD3801 that names the op, its line and the lever."""
    expected = [*execution.outputs, *execution.state.values()]
    names = [binding.name for binding in (*recording.tape.outputs, *recording.tape.state_out)]
    for _ in range(tries):
        run = execution.again()
        draws.seed(execution.seed)
        outputs, state = run()
        for name, left, right in zip(names, expected, [*outputs, *state.values()], strict=True):
            found = difference(right, left)
            if found is not None:
                raise _unequal(recording, weights, execution, device, f"`{name}` {found}")


def _unequal(
    recording: Recording, weights: Weights, execution: Execution, device: torch.device, what: str
) -> TraceError:
    op = find_op(recording.tape, recording.constants.__getitem__, weights, execution, device)
    name = f"`{op.name}`" if op else "no single op"
    return TraceError(
        "CAD3801",
        f"the stock model is not equal to itself from run to run: {name}",
        expected="the same bits from two runs on the same input, state and seed",
        got=what,
        at=op.source or None if op else None,
        hint=lever(op) if op else "the model reads something that changes: time, a thread, memory that nothing wrote",
    )


def lever(op: Op) -> str:
    """Return what makes an op deterministic."""
    found = _LEVERS.get(base_name(op.name))
    if found is None and torch.Tag.nondeterministic_seeded not in resolve(op.name).tags:
        found = _ALGORITHMS
    return f"set `{found}` in the spec" if found else "draw from the default generator"


def find_op(
    tape: Tape, constant: Callable[[str], Tensor], weights: Weights, execution: Execution, device: torch.device
) -> Op | None:
    """Return the first op of a tape, as recorded, that gives other bits for the same operands."""
    needed = needed_results(tape)
    draws.seed(execution.seed)
    with neutral():
        memory = prepare(tape, execution.inputs, execution.leaves, weights.tensor, constant, device)
        for op, kept in zip(tape.ops, needed, strict=True):
            if not op.writes or effects_of(op.name).reserves:
                continue
            changed = [view.storage for view in views_of(op.outs) if view.storage in kept]
            before = {index: memory.base(index).clone() for index in {*op.reads, *op.writes} if memory.is_bound(index)}
            generators = generator_states(device)
            first = _results(memory, op, changed)
            for _ in range(TRIES):
                for index, data in before.items():
                    memory.base(index).copy_(data)
                restore_generators(generators)
                again = _results(memory, op, changed)
                if any(first_difference(a, b) is not None for a, b in zip(again, first, strict=True)):
                    return op
    return None


def _results(memory: Memory, op: Op, storages: Sequence[int]) -> list[Tensor]:
    """Run an op and return copies of its results that matter; a second run writes over the first one's."""
    memory.run(op)
    return [memory.view(view).clone() for view in views_of(op.outs) if view.storage in storages]
