"""From a real execution of a stage to a `Tape`.

The stage runs once, for real, under a dispatch mode below autograd. Every op is written down with its operands as
storages and views; which storages an op reads and writes follows from its schema, what aliases what from the storages
themselves. What a recording guarantees: run again op by op on the same bytes, the tape gives the same bits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cadence_runtime.errors import CadenceError
from cadence_runtime.format.tape import Binding, Op, Operand, Tape, View
from cadencec.trace import hazards
from cadencec.trace.draws import Generators
from cadencec.trace.effects import Effects, effects_of
from cadencec.trace.neutral import neutral
from cadencec.trace.operands import encode_literal, views_of
from cadencec.trace.source import SourceLines
from cadencec.trace.storages import StorageTable, check_layout
from cadencec.trace.weights import Weights, collect_weights

__all__ = ["Recording", "Weights", "collect_weights", "record"]

Leaf = Tensor | bool | int | float | str | None
Call = Callable[[], tuple[Sequence[object], Mapping[str, object]]]


@dataclass(frozen=True, slots=True)
class Recording:
    """A tape as recorded, before any pass, with what really came out of the run.

    `state` are the new leaves by path. `constants` are the bytes of the tape's constants by digest, one-dimensional
    uint8 tensors on the CPU.
    """

    tape: Tape
    outputs: tuple[Leaf, ...]
    state: Mapping[str, Leaf]
    constants: Mapping[str, Tensor]


def record(
    stage: str,
    call: Call,
    inputs: Mapping[str, Leaf],
    leaves: Mapping[str, Leaf],
    weights: Weights,
    *,
    names: Sequence[str],
    device: torch.device | None = None,
    with_source: bool = True,
) -> Recording:
    """Run `call` once and return its tape.

    `call` runs the model on exactly these tensors and returns its outputs, one for each of `names`, and the new leaves
    by path. Raises TraceError (CAD30xx to CAD33xx) for everything that a tape cannot replay.
    """
    device = device or torch.device("cpu")
    mode = _Recorder(device, weights, with_source)
    mode.table.bind("leaf", tensors_of(leaves))
    mode.table.bind("input", tensors_of(inputs))
    with neutral():
        entry = [mode.binding(name, value) for name, value in (*inputs.items(), *leaves.items())]
        outputs, state = _run(mode, call)
        if len(outputs) != len(names):
            raise hazards.wrong_outputs(stage, names, len(outputs))
        out = tuple(mode.binding(name, value) for name, value in zip(names, outputs, strict=True))
        state_out = tuple(mode.binding(path, value) for path, value in state.items())
    tape = Tape(
        stage=stage,
        storages=mode.table.finish(),
        inputs=tuple(entry[: len(inputs)]),
        state_in=tuple(entry[len(inputs) :]),
        ops=tuple(mode.ops),
        outputs=out,
        state_out=state_out,
        draws=any(op.draws for op in mode.ops),
    )
    return Recording(tape, tuple(outputs), dict(state), mode.table.constants)  # type: ignore[arg-type]


def tensors_of(values: Mapping[str, Leaf]) -> dict[str, Tensor]:
    """Return the tensors among named values."""
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def _run(mode: "_Recorder", call: Call) -> tuple[Sequence[object], Mapping[str, object]]:
    """Run the model under the mode; an error of ours wins over whatever the model made of it."""
    try:
        with mode:
            result = call()
    except Exception:
        if mode.error is not None:
            raise mode.error from None
        raise
    if mode.error is not None:
        raise mode.error
    mode.generators.check_unmoved()
    return result


class _Recorder(TorchDispatchMode):
    """Writes down every op that runs while it is active."""

    def __init__(self, device: torch.device, weights: Weights, with_source: bool) -> None:
        super().__init__()
        self.target, self.with_source = device, with_source
        self.table = StorageTable(device, weights)
        self.lines = SourceLines()
        self.generators = Generators(device)
        self.ops: list[Op] = []
        self.error: CadenceError | None = None
        self._effects: dict[object, Effects] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            return self._dispatch(func, args, kwargs or {})
        except CadenceError as error:
            self.error = self.error or error
            raise

    def binding(self, name: str, value: object) -> Binding:
        """Return what a name of the interface stands for, at this moment."""
        if not isinstance(value, Tensor):
            return Binding(name, encode_literal(value, self.target))
        return Binding(name, self._view(value, name))

    def _dispatch(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        effects = self._effects.get(func)
        if effects is None:
            effects = self._effects[func] = effects_of(func.name())
        if effects.composite:
            with self:
                result = func.decompose(*args, **kwargs)
            if result is NotImplemented:
                raise hazards.composite(effects.name, self.lines.quoted())
            return result
        if effects.ignored or effects.moves_view:
            return func(*args, **kwargs)
        return self._record(func, effects, args, kwargs)

    def _record(self, func: Any, effects: Effects, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if effects.name == "aten::lift_fresh":
            return self._lift(func, args[0])
        operands = tuple(self._operand(arg, effects.name) for arg in args)
        named = tuple((key, self._operand(kwargs[key], effects.name)) for key in sorted(kwargs))
        read, written = self._touched(effects, args, kwargs, operands, dict(named))
        depends = self._depends(effects, read)
        self._refuse(effects, args, kwargs, depends)
        if effects.seeded:
            self.generators.check_operands((*args, *kwargs.values()), effects.name, self.lines)
            self.generators.check_unmoved(self.lines)
        result = func(*args, **kwargs)
        if effects.host_read or (not _holds_tensor(result) and not written and not effects.asserts):
            return result
        draws = effects.seeded and self.generators.moved()
        depends |= StorageTable.DRAW if draws else 0
        before = len(self.table.kinds)
        results = result if isinstance(result, tuple) else (result,)
        outs = tuple(self._result(value, depends) for value in results)
        fresh = set(range(before, len(self.table.kinds)))
        self._append(effects, operands, named, outs, read, written, fresh, depends, draws)
        return result

    def _append(  # noqa: PLR0913
        self,
        effects: Effects,
        args: tuple[Operand, ...],
        kwargs: tuple[tuple[str, Operand], ...],
        outs: tuple[Operand, ...],
        read: set[int],
        written: set[int],
        fresh: set[int],
        depends: int,
        draws: bool,
    ) -> None:
        """Write one op down; an op that only makes views or reserves memory reads and writes nothing."""
        for index in written:
            self.table.depends[index] |= depends
        computes = bool(written or fresh or effects.asserts) and not effects.reserves
        source = self.lines.here() if self.with_source else ""
        reads = tuple(sorted(read)) if computes else ()
        writes = tuple(sorted(written | fresh)) if computes else ()
        self.ops.append(Op(effects.name, args, kwargs, outs, reads, writes, source, draws))

    def _operand(self, value: Any, op: str) -> Operand:
        if isinstance(value, Tensor):
            return self._view(value, op)
        if isinstance(value, list | tuple):
            return tuple(self._operand(item, op) for item in value)
        return encode_literal(value, self.target)

    def _view(self, tensor: Tensor, used_by: str) -> View:
        index = self.table.find(tensor)
        if index is None:
            check_layout(tensor)
            raise hazards.from_nowhere(tensor, used_by, self.lines.quoted())
        return self.table.view(tensor, index)

    def _result(self, value: Any, depends: int) -> Operand:
        if isinstance(value, Tensor):
            index = self.table.find(value)
            if index is None:
                check_layout(value)
                index = self.table.add("scratch", "", value, depends)
            return self.table.view(value, index)
        if isinstance(value, list | tuple):
            return tuple(self._result(item, depends) for item in value)
        return encode_literal(value, self.target)

    def _touched(
        self,
        effects: Effects,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        operands: tuple[Operand, ...],
        named: Mapping[str, Operand],
    ) -> tuple[set[int], set[int]]:
        """Return the storages that the op reads and those that it writes in place."""
        whole: set[int] = set()
        written: set[int] = set()
        read: list[Operand] = [*operands, *named.values()]
        for position, name, overwrites in effects.mutated:
            operand = operands[position] if position < len(operands) else named.get(name)
            if operand is None:
                continue
            written.update(view.storage for view in views_of((operand,)))
            if overwrites:
                whole.add(id(operand))
        kept = (operand for operand in read if id(operand) not in whole)
        return {view.storage for view in views_of(kept)}, written

    def _depends(self, effects: Effects, read: set[int]) -> int:
        if effects.shape_only:
            return 0
        depends = 0
        for index in read:
            depends |= self.table.depends[index]
        return depends

    def _refuse(self, effects: Effects, args: Sequence[Any], kwargs: Mapping[str, Any], depends: int) -> None:
        """Raise for ops whose replay could not be the same."""
        if depends and effects.host_read:
            raise hazards.host_read(effects.name, self.table.names_of(depends), self.lines.quoted())

    def _lift(self, func: Any, tensor: Tensor) -> Tensor:
        """A tensor made outside of torch's dispatch (`torch.tensor`, `from_numpy`): a constant, copied before use."""
        result: Tensor = func(tensor)
        if self.table.find(tensor) is None:
            check_layout(tensor)
            constant = self.table.add_constant(tensor)
            copy = self.table.add("scratch", "", tensor, 0)
            source, out = self.table.view(tensor, constant), self.table.view(result, copy)
            line = self.lines.here() if self.with_source else ""
            self.ops.append(Op("aten::clone", (source,), (), (out,), (constant,), (copy,), line))
        return result


def _holds_tensor(result: Any) -> bool:
    if isinstance(result, list | tuple):
        return any(_holds_tensor(item) for item in result)
    return isinstance(result, Tensor)
