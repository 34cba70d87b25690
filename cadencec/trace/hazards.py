"""The errors of recording: what a tape could not replay, said by op, name and line."""

from collections.abc import Sequence

from torch import Tensor

from cadence_runtime.errors import TraceError


def wrong_outputs(stage: str, names: Sequence[str], got: int) -> TraceError:
    """CAD3004: a stage returned another number of outputs than it declares."""
    return TraceError(
        "CAD3004",
        f"stage `{stage}` returned another number of outputs than it declares",
        expected=f"{len(names)}: " + ", ".join(f"`{name}`" for name in names),
        got=str(got),
        hint="list the outputs in flattening order",
    )


def composite(op: str, at: str) -> TraceError:
    """CAD3005: a composite op reached the recorder whole and cannot be taken apart."""
    return TraceError(
        "CAD3005",
        f"`{op}` reached the recorder as one composite op",
        expected="the ops that it is made of",
        got="a tensor made under `inference_mode`",
        at=at,
        hint="build the model and its state outside of `torch.inference_mode`",
    )


def from_nowhere(tensor: Tensor, used_by: str, at: str) -> TraceError:
    """CAD3006: a tensor that no recorded op made and that the model does not hold."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TraceError(
        "CAD3006",
        f"a tensor comes from nowhere; `{used_by}` is the first to use it",
        expected="an input, a state leaf, a parameter, a buffer, or the result of a recorded op",
        got=f"{dtype} {list(tensor.shape)}",
        at=at,
        hint="register it as a buffer, declare it as state, or compute it with torch ops in the stage",
    )


def host_read(op: str, sources: Sequence[str], at: str) -> TraceError:
    """CAD3101: the host reads a value that changes from run to run."""
    return TraceError(
        "CAD3101",
        f"`{op}` hands data to the host (an `if`, `.item()`, `int()`): Python may go another way next time",
        expected="a value that depends on no input, no state and no random draw",
        got="a value that depends on " + ", ".join(sources),
        at=at,
        hint="choose with `torch.where`, or declare the value as a literal input or a counter",
    )
