"""The first op at which a model and its tape part: the model runs once more, untraced but watched, and each op that it
runs is compared with the tape's.

    model   mul  add  tanh  cat            tape   mul  add  tanh  cat
             =    =    !=                  -> `aten::tanh`, and its line
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cadence_runtime.format.tape import Op, Tape, View
from cadencec.trace.bits import raw_bytes
from cadencec.trace.dispatch import DispatchMode
from cadencec.trace.effects import effects_of
from cadencec.trace.interpret import Memory
from cadencec.trace.operands import views_of


@dataclass(frozen=True, slots=True)
class Parting:
    """Where the two parted: the tape's op (None where the tape has ended), and in what."""

    op: Op | None
    what: str


@dataclass(frozen=True, slots=True)
class _Seen:
    name: str
    results: tuple[Tensor, ...]


class _Watch(DispatchMode):  # type: ignore[no-untyped-call]
    """Keeps a copy of what every op returns, and of what it changes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[_Seen] = []

    def dispatch(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run one op and keep its results."""
        effects = effects_of(func.name())
        if effects.composite:
            with self:
                decomposed = func.decompose(*args, **kwargs)
            if decomposed is not NotImplemented:
                return decomposed
        result = func(*args, **kwargs)
        name = "aten::clone" if effects.name == "aten::lift_fresh" else effects.name
        self.seen.append(_Seen(name, tuple(value.detach().clone() for value in _tensors(result))))
        return result


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def first_parting(tape: Tape, memory: Memory, run: Callable[[], object], seed: Callable[[], object]) -> Parting | None:
    """Run the model by `run`, then the tape (as recorded, before any pass) op by op, both after `seed`; return where
    they part first.

    None where every op agrees: then what differs is no op, but how the results are put together.
    """
    watch = _Watch()
    seed()
    with watch:
        run()
    seed()
    needed = needed_results(tape)
    waiting = iter(watch.seen)
    for position, op in enumerate(tape.ops):
        seen = next((seen for seen in waiting if seen.name == op.name), None)
        if seen is None:
            return Parting(op, "the model does not run it, or runs another op first")
        memory.run(op)
        parted = _compare(op, memory, seen, needed[position])
        if parted is not None:
            return Parting(op, parted)
    return None


def needed_results(tape: Tape) -> list[frozenset[int]]:
    """Return for each op the storages that a later op or a result reads; other results may be undefined."""
    bindings = (*tape.outputs, *tape.state_out)
    later = {binding.value.storage for binding in bindings if isinstance(binding.value, View)}
    needed: list[frozenset[int]] = []
    for op in reversed(tape.ops):
        needed.append(frozenset(later))
        later |= set(op.reads)
    return needed[::-1]


def _compare(op: Op, memory: Memory, seen: _Seen, needed: frozenset[int]) -> str | None:
    if effects_of(op.name).reserves:
        return None
    views = list(views_of(op.outs))
    for view, expected in zip(views, seen.results, strict=False):
        if view.storage not in needed:
            continue
        if tuple(expected.shape) != view.sizes:
            return f"sizes {list(expected.shape)} in the model, {list(view.sizes)} in the tape"
        difference = first_difference(memory.view(view), expected)
        if difference is not None:
            return difference
    return None


def first_difference(got: Tensor, expected: Tensor) -> str | None:
    """Return the first element, in row-major order, whose bits differ: ``[0, 3]: 0.5 instead of 0.25``."""
    if got.dtype != expected.dtype:
        return f"{got.dtype} instead of {expected.dtype}".replace("torch.", "")
    if got.shape != expected.shape:
        return f"sizes {list(got.shape)} instead of {list(expected.shape)}"
    left, right = raw_bytes(got), raw_bytes(expected)
    if torch.equal(left, right.to(left.device)):  # states are large: only what differs is copied to the host
        return None
    left, right = left.cpu(), right.cpu()
    byte = int((left != right).nonzero()[0])
    flat = byte // got.element_size()
    index = [int(i) for i in torch.unravel_index(torch.tensor(flat), got.shape)] if got.dim() else []
    ours, theirs = (_number(tensor.reshape(-1)[flat]) for tensor in (got, expected))
    if ours == theirs:
        size = got.element_size()
        ours, theirs = (_hex(data[flat * size : (flat + 1) * size]) for data in (left, right))
    return f"{index}: {ours} instead of {theirs}"


def _number(element: Tensor) -> str:
    """Return the shortest text that tells a number of its dtype from all others."""
    if element.is_floating_point() and element.element_size() <= 4:
        return str(np.float32(element.item()))
    return repr(element.item())


def _hex(data: Tensor) -> str:
    """Return the bytes of one number, most significant first: NaNs differ in nothing else that can be read."""
    return "0x" + bytes(data.tolist())[::-1].hex()
