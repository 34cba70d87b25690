"""Published tensors into a model: strictly, by the names of the release.

A module takes its tensors by its own `load_state_dict`, so that what the released code does about names of older
releases is done. Everything that does not fit is told at once:

    missing    a parameter or persistent buffer of the model that no file holds
    extra      a tensor that the model has no place for
    misshapen  other sizes, or a dtype that the model's own does not hold exactly

An adapter that runs a part of a release has `published_name(name)`: the name that a published tensor has in the model,
or None for one that is not run.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from cadence_runtime.errors import TraceError
from cadencec.spec.values import suggest
from cadencec.trace.weights import Weights


@dataclass(slots=True)
class _Misfits:
    """Lines about what does not fit, by kind."""

    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    misshapen: list[str] = field(default_factory=list)

    def raise_found(self, at: str) -> None:
        kinds = {"missing": self.missing, "extra": self.extra, "misshapen": self.misshapen}
        lines = [f"{kind} {line}" for kind, found in kinds.items() for line in sorted(found)]
        if lines:
            counts = ", ".join(f"{len(found)} {kind}" for kind, found in kinds.items() if found)
            raise TraceError(
                "CAD3903",
                f"the tensors of the weights file do not fit the model: {counts}",
                expected="each tensor of the model, by its published name, and no other",
                got=("\n" + " " * 12).join(lines),
                at=at,
                hint="is this the release that the adapter is for, and are its options those of the release?",
            )


def load_published(tensors: Mapping[str, Tensor], weights: Weights, at: str) -> None:
    """Copy published tensors into the model. Raises TraceError CAD3903 that lists all that do not fit."""
    rename: Callable[[str], str | None] = getattr(weights.model, "published_name", lambda name: name)
    named = {here: tensor for name, tensor in tensors.items() if (here := rename(name)) is not None}
    own, misfits = _own_tensors(weights), _Misfits()
    misfits.misshapen += _misshapen(named, own)
    fitting = {name: tensor for name, tensor in named.items() if name not in own or _fits(tensor, own[name])}
    taken: set[str] = set()
    for prefix, module in _modules(weights.model):
        under = {name: tensor for name, tensor in fitting.items() if name.startswith(prefix) and name not in taken}
        taken |= _load(module, prefix, under, misfits)
    misfits.missing[:] = _missing(misfits.missing, named, own)
    for name in fitting.keys() - taken:
        if name in own:
            with torch.no_grad():
                own[name].copy_(fitting[name])
        else:
            hint = suggest(name, own)
            misfits.extra.append(f"`{name}` {_form(fitting[name])}" + (f", {hint}" if hint else ""))
    misfits.raise_found(at)


def _modules(model: object) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules that tensors are published for, with what their names begin with: the model itself, or those in
    its public attributes."""
    if isinstance(model, nn.Module):
        yield "", model
        return
    for name, value in vars(model).items():
        if isinstance(value, nn.Module) and not name.startswith("_"):
            yield f"{name}.", value


def _own_tensors(weights: Weights) -> dict[str, Tensor]:
    """Return the tensors of the model by name; of tied ones, each name."""
    named = dict(weights.tensors)
    for prefix, module in _modules(weights.model):
        named |= {prefix + name: tensor for name, tensor in module.state_dict().items() if isinstance(tensor, Tensor)}
    return named


def _load(module: nn.Module, prefix: str, under: Mapping[str, Tensor], misfits: _Misfits) -> set[str]:
    """Let a module take its tensors, and return the names that it took."""
    state = {name.removeprefix(prefix): tensor for name, tensor in under.items()}
    try:
        keys = module.load_state_dict(state, strict=False)
    except RuntimeError as error:  # sizes of tensors that the module itself renames
        lines = [line.strip() for line in str(error).splitlines()]
        misfits.misshapen += lines[1:] or lines
        return set(under)
    misfits.missing += [prefix + name for name in keys.missing_keys]
    return under.keys() - {prefix + name for name in keys.unexpected_keys}


def _missing(names: list[str], named: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> list[str]:
    """Return lines about what is missing, but for what has another size and what is tied to a tensor that is there."""
    held = {_place(own[name]) for name in named if name in own}
    absent = {name: own[name] for name in names if name not in named}
    return [f"`{name}` {_form(tensor)}" for name, tensor in absent.items() if _place(tensor) not in held]


def _place(tensor: Tensor) -> tuple[int, int, torch.Size]:
    return tensor.untyped_storage().data_ptr(), int(tensor.storage_offset()), tensor.shape


def _misshapen(named: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> list[str]:
    return [
        f"`{name}` {_form(tensor)}, expected {_form(own[name])}"
        for name, tensor in named.items()
        if name in own and not _fits(tensor, own[name])
    ]


def _fits(tensor: Tensor, own: Tensor) -> bool:
    """Return whether sizes are equal, and the dtype, or a wider one of floating point holds the tensor exactly."""
    widened = tensor.is_floating_point() and torch.promote_types(tensor.dtype, own.dtype) == own.dtype
    return tensor.shape == own.shape and (tensor.dtype == own.dtype or widened)


def _form(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}".removeprefix("torch.")
