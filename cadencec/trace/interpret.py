"""Runs a tape op by op on fresh storages: the plain reference that everything else is compared with."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadence_runtime.format.tape import Binding, Literal, Op, Operand, Storage, Tape, View
from cadencec.trace.operands import DTYPES, decode_literal, resolve

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
            self.view(out).copy_(result)


def check_result(op: Op, out: View, result: Tensor) -> None:
    """Raise TraceError CAD3301 when an op made another layout than it did when it was recorded."""
    made = (tuple(result.shape), result.stride(), result.storage_offset(), DTYPES[out.dtype])
    told = (out.sizes, out.strides, out.offset, result.dtype)
    if made != told:
        raise TraceError(
            "CAD3301",
            f"`{op.name}` made another layout in replay than when it was recorded",
            expected=f"sizes {list(out.sizes)}, strides {list(out.strides)}, offset {out.offset}, {out.dtype}",
            got=f"sizes {list(result.shape)}, strides {list(result.stride())}, offset {result.storage_offset()}",
            at=op.source or None,
        )


def interpret(
    tape: Tape,
    inputs: Mapping[str, Value],
    leaves: Mapping[str, Value],
    weight: Callable[[str], Tensor],
    constant: Callable[[str], Tensor],
    device: torch.device | None = None,
) -> tuple[tuple[Value, ...], dict[str, Value]]:
    """Run a tape on copies of inputs and leaves; return the outputs by position and the new leaves by path."""
    with torch.no_grad():
        memory = prepare(tape, inputs, leaves, weight, constant, device or torch.device("cpu"))
        for op in tape.ops:
            memory.run(op)
        outputs = tuple(_value(memory, binding) for binding in tape.outputs)
        return outputs, {binding.name: _value(memory, binding) for binding in tape.state_out}


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
    for binding in (*tape.inputs, *tape.state_in):
        if isinstance(binding.value, View):
            value = inputs[binding.name] if binding in tape.inputs else leaves[binding.name]
            memory.view(binding.value).copy_(value)  # type: ignore[arg-type]
    return memory


def _own_storage(tensor: Tensor) -> Tensor:
    """Return the weight at the start of a storage of its own; views of a tape count from the weight's first byte."""
    return tensor.detach() if tensor.storage_offset() == 0 else tensor.detach().clone()


def _value(memory: Memory, binding: Binding) -> Value:
    if isinstance(binding.value, Literal):
        return decode_literal(binding.value, memory.device)  # type: ignore[return-value]
    return memory.view(binding.value)
