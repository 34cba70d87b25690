"""The passes in their order, each with a switch."""

from collections.abc import Callable

import torch

from cadencec.passes import dead, fills, fold, in_place, kernels
from cadencec.passes.program import Context, Program
from cadencec.trace.neutral import no_collection
from cadencec.trace.recorder import Recording
from cadencec.trace.weights import Weights

PASSES: dict[str, Callable[[Program, Context], Program]] = {
    "fills": fills.run,
    "fold": fold.run,
    "dead": dead.run,
    "kernels": kernels.run,
    "in_place": in_place.run,
}
"""Every pass by the name of its switch, in the order in which they run."""

ALL = frozenset(PASSES)


def optimise(
    recording: Recording, weights: Weights, switches: frozenset[str] = ALL, *, device: torch.device | None = None
) -> Program:
    """Return the recording's tape after the passes that are switched on, with its constants."""
    context = Context(device or torch.device("cpu"), weights.tensor)
    program = Program(recording.tape, recording.constants, recording.derived)
    with no_collection():
        for name, run in PASSES.items():
            if name in switches:
                program = run(program, context)
    return program
