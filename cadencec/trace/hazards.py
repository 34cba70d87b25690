"""The errors of recording: what a tape could not replay, said by op, name and line."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal as OneOf

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from cadence_runtime.errors import TraceError
from cadence_runtime.format.tape import Literal, Operand, View
from cadencec.trace.attributes import modules_of
from cadencec.trace.effects import base_name
from cadencec.trace.flags import FLAG_NAMES
from cadencec.trace.operands import resolve, views_of
from cadencec.trace.source import SourceLines


def wrong_outputs(stage: str, names: Sequence[str], got: int) -> TraceError:
    """CAD3004: a stage returned another number of outputs than it declares."""
    return TraceError(
        "CAD3004",
        f"stage `{stage}` returned another number of outputs than it declares",
        expected=f"{len(names)} ({listed(names)})",
        got=str(got),
        hint="list the outputs in flattening order",
    )


def composite(op: str, at: str) -> TraceError:
    """CAD3005: a composite op reached the recorder whole and cannot be taken apart."""
    return TraceError(
        "CAD3005",
        f"`{op}` reached the recorder as one composite op",
        expected="the ops that it is made of",
        got="an op on tensors made under `inference_mode`",
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
        got="a parameter of a lazy module" if is_lazy(tensor) else f"{dtype} {list(tensor.shape)}",
        at=at,
        hint="register it as a buffer, declare it as state, or compute it with torch ops in the stage",
    )


def raised(stage: str, error: Exception, at: str) -> TraceError:
    """CAD3007: the model's own code raised."""
    text = str(error).strip().splitlines()
    return TraceError(
        "CAD3007",
        f"stage `{stage}` raised while it was traced",
        expected="the stage to run at every shape that the timeline reaches",
        got=type(error).__name__ + (f": {text[0]}" if text else ""),
        at=at,
        hint="run the stage by hand at this shape, or correct the timeline",
    )


def host_read(how: str, sources: Sequence[str], at: str) -> TraceError:
    """CAD3101: the host reads a value that changes from run to run."""
    return TraceError(
        "CAD3101",
        f"`{how}` hands data to the host (an `if`, `.item()`, `int()`): Python may go another way next time",
        expected="a value that depends on no input, no state and no random draw",
        got=f"a value that depends on {', '.join(sources)}",
        at=at,
        hint="choose with `torch.where`, or declare the value as a literal input or a counter",
    )


def shape_from_data(op: str, sources: Sequence[str], at: str) -> TraceError:
    """CAD3104: the shape of a result depends on values that change from run to run."""
    return TraceError(
        "CAD3104",
        f"the shape of what `{op}` returns depends on data",
        expected="a shape that follows from the shapes of inputs and state",
        got=f"a shape that depends on {', '.join(sources)}",
        at=at,
        hint="keep the shape and mask the values: `torch.where`, `masked_fill`",
    )


def dropout_training(op: str, modules: Sequence[str], at: str) -> TraceError:
    """CAD3105: dropout is active."""
    return TraceError(
        "CAD3105",
        "dropout is in training mode" + named(modules),
        expected="dropout that does nothing",
        got=f"a draw by `{op}`",
        at=at,
        hint="call `model.eval()` in `build`",
    )


def batch_norm_training(op: str, modules: Sequence[str], at: str) -> TraceError:
    """CAD3106: batch-norm updates its running statistics."""
    return TraceError(
        "CAD3106",
        "batch-norm is in training mode" + named(modules),
        expected="running statistics that stay as they are",
        got=f"`{op}` updates them",
        at=at,
        hint="call `model.eval()` in `build`",
    )


def moved_to_host(sources: Sequence[str], at: str) -> TraceError:
    """CAD3107: changing data is computed or kept on the host while the stage is traced on a device."""
    return TraceError(
        "CAD3107",
        "the stage moves changing data to the host",
        expected="all that changes from run to run to stay on the traced device",
        got=f"a host tensor that depends on {', '.join(sources)}",
        at=at,
        hint="compute it on the device of its inputs",
    )


def flags_changed(before: Sequence[object], after: Sequence[object], at: str | None) -> TraceError:
    """CAD3108: a precision flag was switched inside the stage."""
    name, old, new = next(
        (name, old, new) for name, old, new in zip(FLAG_NAMES, before, after, strict=True) if old != new
    )
    return TraceError(
        "CAD3108",
        f"the stage switches `{name}` while it runs",
        expected=f"`{old}` throughout",
        got=f"`{new}`",
        at=at,
        hint="set it once, in the spec's `numerics`",
    )


def shared_scratch(name: str, writer: str, reader: str) -> TraceError:
    """CAD3206: a buffer is scratch of one stage, or at one shape, and is read as it stands elsewhere."""
    return TraceError(
        "CAD3206",
        f"undeclared state: `{name}` is overwritten in stage `{writer}` and read as it stands in stage `{reader}`",
        expected="a buffer that every stage writes before it reads it, or none writes",
        got="a value that passes from one step to another",
        hint="declare it as a leaf of the state",
    )


def shape_operands(op: str, args: Sequence[Operand], kwargs: Mapping[str, Operand]) -> list[View]:
    """Return the operands whose values decide the shape of the result of a data-dependent op."""
    match base_name(op):
        case "index":
            return [view for view in views_of((args[1],)) if view.dtype in ("bool", "uint8")]
        case "repeat_interleave":
            known = isinstance(kwargs.get("output_size"), Literal) and kwargs["output_size"] != Literal("none", "")
            return [] if known else list(views_of(args))
        case "masked_select":
            return list(views_of(args[1:]))
    return list(views_of((*args, *kwargs.values())))


def updates_statistics(op: str, args: Sequence[Operand], kwargs: Mapping[str, Operand]) -> bool:
    """Return whether a batch-norm op runs in training mode and has running statistics."""
    names = [argument.name for argument in resolve(op)._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    training = given.get("training", given.get("train", Literal("bool", "true")))
    return training == Literal("bool", "true") and isinstance(given.get("running_mean"), View)


def is_dropout(op: str, model: object, lines: SourceLines) -> bool:
    """Return whether a draw belongs to dropout: by the op, by the call of torch's functional, or, for scripted code,
    because a dropout module was left in training mode."""
    base = base_name(op)
    if base in ("native_dropout", "_fused_dropout", "rrelu_with_noise") or "attention" in base:
        return True
    if lines.is_within("torch/nn/functional.py", "dropout"):
        return True
    return base == "bernoulli_" and bool(in_training(model, "dropout"))


def in_training(model: object, kind: OneOf["dropout", "norm"]) -> list[str]:
    """Return the paths of the dropout or batch-norm modules that are in training mode."""
    classes = {"dropout": nn.modules.dropout._DropoutNd, "norm": nn.modules.batchnorm._BatchNorm}
    words = {"dropout": "Dropout", "norm": "BatchNorm"}

    def matches(module: nn.Module) -> bool:
        scripted = words[kind] in str(getattr(module, "original_name", ""))
        return module.training and (scripted or isinstance(module, classes[kind]))

    return [path or "." for path, module in modules_of(model) if matches(module)]


def named(paths: Sequence[str]) -> str:
    """Return `: `a`, `b`` for the first few paths, or nothing."""
    return f": {listed(paths)}" if paths else ""


def listed(names: Iterable[str], most: int = 4) -> str:
    """Return names in backquotes, the first few of them."""
    found = list(names)
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(f"`{name}`" for name in found[:most]) + rest
