"""Runs a tape op by op on fresh storages: the plain reference that everything else is compared with."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadence_runtime.format.tape import Binding, Literal, Op, Operand, Storage, Tape, View
from cadencec.trace.bits import copy_into
from cadencec.trace.operands import DTYPES, decode_literal, resolve, views_of
from cadencec.trace.state import copy_bytes

Value = Tensor | bool | int | float | str | None


class Memory:
    """The storages of a tape while it runs; one that no op has made yet is allocated, zeroed, when it is first used."""

    def __init__(self, storages: tuple[Storage, ...], device: torch.device) -> None:
        self.storages, self.device = storages, device
        self._bases: list[Tensor | None] = [None] * len(storages)

    def bind(self, index: int, tensor: Tensor) -> None:
        """Let a storage of the tape be the storage that a tensor stands on."""
        base = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        self._bases[index] = base.set_(tensor.untyped_storage())

    def is_bound(self, index: int) -> bool:
        """Return whether the storage has bytes yet."""
        return self._bases[index] is not None

    def base(self, index: int) -> Tensor:
        """Return all bytes of a storage as a one-dimensional uint8 tensor."""
        base = self._bases[index]
        if base is None:
            storage = self.storages[index]
            device = torch.device("cpu") if storage.host else self.device
            base = self._bases[index] = torch.zeros(storage.size_bytes, dtype=torch.uint8, device=device)
        return base

    def release(self, indices: Iterable[int]) -> None:
        """Let go of storages that are no longer needed."""
        for index in indices:
            self._bases[index] = None

    def view(self, view: View) -> Tensor:
        """Return a view of the tape as a tensor."""
        base = self.base(view.storage)
        tensor = torch.empty(0, dtype=DTYPES[view.dtype], device=base.device)
        tensor.set_(base.untyped_storage(), view.offset, view.sizes, view.strides)
        tensor = torch._conj(tensor) if view.conj else tensor
        return torch._neg_view(tensor) if view.neg else tensor

    def operand(self, operand: Operand) -> object:
        """Return an operand of an op as torch takes it."""
        if isinstance(operand, View):
            return self.view(operand)
        if isinstance(operand, tuple):
            return [self.operand(item) for item in operand]
        return decode_literal(operand, self.device)

    def run(self, op: Op) -> None:
        """Run one op and bind what it makes. An op that neither reads nor writes is a view or a reservation."""
        if not op.reads and not op.writes:
            return
        args = [self.operand(arg) for arg in op.args]
        kwargs = {name: self.operand(value) for name, value in op.kwargs}
        result = resolve(op.name)(*args, **kwargs)
        results = result if isinstance(result, tuple) else (result,)
        self._store(op, op.outs, results)

    def _store(self, op: Op, outs: tuple[Operand, ...], results: object) -> None:
        for out, result in zip(outs, results, strict=True):  # type: ignore[call-overload]
            if isinstance(out, tuple):
                self._store(op, out, result)
            elif isinstance(out, View) and isinstance(result, Tensor):
                self._store_tensor(op, out, result)

    def _store_tensor(self, op: Op, out: View, result: Tensor) -> None:
        """A fresh storage becomes the result's; a result for a storage that is there is copied into it."""
        if not self.is_bound(out.storage):
            self.bind(out.storage, result)
            check_result(op, out, result)
        elif self.base(out.storage).untyped_storage()._cdata != result.untyped_storage()._cdata:
            copy_into(self.view(out), result)


def check_result(op: Op, out: View, result: Tensor) -> None:
    """Raise TraceError CAD3301 when an op made another layout than it did when it was recorded."""
    told = (out.sizes, out.strides, out.offset, DTYPES[out.dtype])
    made = (tuple(result.shape), result.stride(), result.storage_offset(), result.dtype)
    if made != told:
        raise TraceError(
            "CAD3301",
            f"`{op.name}` made another layout in replay than when it was recorded",
            expected=_layout(*told),
            got=_layout(*made),
            at=op.source or None,
            hint="report this: the op does not follow from its operands alone",
        )


def _layout(sizes: Iterable[int], strides: Iterable[int], offset: object, dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    return f"sizes {list(sizes)}, strides {list(strides)}, offset {offset}, {name}"


def interpret(
    tape: Tape,
    inputs: Mapping[str, Value],
    leaves: Mapping[str, Value],
    weight: Callable[[str], Tensor],
    constant: Callable[[str], Tensor],
    device: torch.device | None = None,
) -> tuple[tuple[Value, ...], dict[str, Value]]:
    """Run a tape on copies of inputs and leaves; return the outputs by position and the new leaves by path.

    `weight` gives a weight by name, `constant` a constant's bytes by digest (one-dimensional uint8). Scratch is freed
    after its last use. Draws advance the default generator.
    """
    with torch.no_grad():
        memory = prepare(tape, inputs, leaves, weight, constant, device or torch.device("cpu"))
        for op, finished in zip(tape.ops, last_uses(tape), strict=True):
            memory.run(op)
            memory.release(finished)
        outputs = tuple(_value(memory, binding) for binding in tape.outputs)
        return outputs, {binding.name: _value(memory, binding) for binding in tape.state_out}


def last_uses(tape: Tape) -> list[tuple[int, ...]]:
    """Return for each op the scratch storages that nothing names after it."""
    bindings = (*tape.outputs, *tape.state_out)
    seen = {view.storage for view in views_of(binding.value for binding in bindings)}
    seen |= {index for index, storage in enumerate(tape.storages) if storage.kind != "scratch"}
    finished = []
    for op in reversed(tape.ops):
        named = dict.fromkeys(v.storage for v in views_of((*op.args, *(value for _, value in op.kwargs), *op.outs)))
        finished.append(tuple(index for index in named if index not in seen))
        seen.update(named)
    return finished[::-1]


def prepare(
    tape: Tape,
    inputs: Mapping[str, Value],
    leaves: Mapping[str, Value],
    weight: Callable[[str], Tensor],
    constant: Callable[[str], Tensor],
    device: torch.device,
) -> Memory:
    """Return the memory of a tape with inputs and leaves copied in and weights and constants bound."""
    memory = Memory(tape.storages, device)
    for index, storage in enumerate(tape.storages):
        if storage.kind == "constant":
            memory.bind(index, constant(storage.name).to("cpu" if storage.host else device))
        elif storage.kind == "weight":
            memory.bind(index, _own_storage(weight(storage.name)))
    for bindings, values in ((tape.inputs, inputs), (tape.state_in, leaves)):
        for binding in bindings:
            _fill(memory, binding, values.get(binding.name))
    return memory


def _fill(memory: Memory, binding: Binding, value: Value) -> None:
    """Copy an input or a leaf in; raises TraceError CAD3302 for a value of another form than the tape's."""
    if isinstance(binding.value, Literal):
        told = decode_literal(binding.value, memory.device)
        fits = type(told) is type(value) and told == value
    else:
        view, told = binding.value, binding.value
        fits = isinstance(value, Tensor) and (tuple(value.shape), value.dtype) == (view.sizes, DTYPES[view.dtype])
    if not fits:
        raise TraceError(
            "CAD3302",
            f"`{binding.name}` is not what the tape was recorded with",
            expected=_described(told),
            got=_described(value),
        )
    if isinstance(value, Tensor) and isinstance(binding.value, View):
        copy_bytes(memory.view(binding.value), value)


def _described(value: object) -> str:
    if isinstance(value, View):
        return f"{value.dtype} {list(value.sizes)}"
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return f"`{value}`"


def _own_storage(tensor: Tensor) -> Tensor:
    """Return the weight at the start of a storage of its own; views of a tape count from the weight's first byte."""
    return tensor.detach() if tensor.storage_offset() == 0 else tensor.detach().clone()


def _value(memory: Memory, binding: Binding) -> Value:
    if isinstance(binding.value, Literal):
        return decode_literal(binding.value, memory.device)  # type: ignore[return-value]
    return memory.view(binding.value)
