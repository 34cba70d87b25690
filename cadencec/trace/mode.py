"""The dispatch mode that writes down every op of a running stage.

It stands below autograd and autocast, so what it sees are the ops that really run, casts included. An op costs some
tens of microseconds: its operands become views, what it touches follows from its schema, and what its results depend
on is passed from storage to storage.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cadence_runtime.errors import CadenceError
from cadence_runtime.format.tape import Binding, Op, Operand, View
from cadencec.trace import hazards
from cadencec.trace.dispatch import DispatchMode
from cadencec.trace.draws import Generators
from cadencec.trace.effects import Accesses, Effects, accesses, effects_of
from cadencec.trace.flags import flags
from cadencec.trace.operands import encode_literal, views_of
from cadencec.trace.source import SourceLines
from cadencec.trace.storages import StorageTable
from cadencec.trace.weights import Weights


class Recorder(DispatchMode):  # type: ignore[no-untyped-call]
    """Records ops while it is active. `error` is the first error raised inside, whatever the model made of it;
    `saved` are the bytes of inputs and leaves from before their first change."""

    def __init__(self, device: torch.device, weights: Weights, with_source: bool) -> None:
        super().__init__()
        self.target, self.with_source = device, with_source
        self.table = StorageTable(device, weights)
        self.lines = SourceLines()
        self.generators = Generators(device)
        self.flags = flags()
        self.ops: list[Op] = []
        self.error: CadenceError | None = None
        self.saved: dict[int, Tensor] = {}
        self._effects: dict[object, Effects] = {}

    def dispatch(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run one op and write it down."""
        try:
            return self._dispatch(func, args, kwargs)
        except CadenceError as error:
            located = error if error.at or error is self.error else self._located(error)
            raise self._failed(located) from None

    def binding(self, name: str, value: object) -> Binding:
        """Return what a name of the interface stands for at this moment."""
        if not isinstance(value, Tensor):
            return Binding(name, encode_literal(value, self.target))
        return Binding(name, self._view(value, f"the value of `{name}`"))

    def reading(self, tensor: Tensor, how: str) -> None:
        """Raise TraceError CAD3101 when the host reads a tensor that changes from run to run, by other means than
        an op."""
        view = self._view(tensor, how)
        if not self.table.is_constant(view.storage):
            raise self._failed(self._host_read(how, self.table.depends[view.storage]))

    def _dispatch(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        effects = self._effects.get(func)
        if effects is None:
            effects = self._effects[func] = effects_of(func.name())
        if effects.composite:
            return self._decompose(func, effects, args, kwargs)
        if effects.ignored:
            return func(*args, **kwargs)
        if effects.moves_view:
            result = func(*args, **kwargs)
            self.table.resized(args[0])
            return result
        if effects.name == "aten::lift_fresh":
            return self._lift(func, args[0])
        return self._record(func, effects, args, kwargs)

    def _decompose(self, func: Any, effects: Effects, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with self:
            result = func.decompose(*args, **kwargs)
        if result is NotImplemented:
            raise hazards.composite(effects.name, self.lines.quoted())
        return result

    def _record(self, func: Any, effects: Effects, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        operands = tuple([self._operand(arg, effects) for arg in args])
        named = tuple([(key, self._operand(kwargs[key], effects)) for key in sorted(kwargs)])
        touched = accesses(effects, operands, dict(named))
        depends = self._depends(effects, touched)
        self._refuse(effects, operands, named, depends)
        self._save(touched)
        if effects.seeded:
            self.generators.check_operands((*args, *kwargs.values()), effects.name, self.lines)
            self.generators.check_unmoved(self.lines)

        result = func(*args, **kwargs)

        draws = effects.seeded and self.generators.moved()
        if draws:
            depends |= StorageTable.DRAW
            self._refuse_dropout(effects)
        before = len(self.table.kinds)
        results = result if isinstance(result, tuple) else (result,)
        outs = tuple([self._result(value, depends) for value in results])
        for _, name, whole in effects.mutated:
            if whole and name in kwargs:
                self.table.resized(kwargs[name])
        fresh = range(before, len(self.table.kinds))
        if fresh and all(self._is_changing_host(index) for index in fresh):
            raise hazards.moved_to_host(self.table.names_of(depends), self.lines.quoted())
        self._append(effects, operands, named, outs, touched, fresh, depends, draws)
        return result

    def _append(
        self,
        effects: Effects,
        args: tuple[Operand, ...],
        kwargs: tuple[tuple[str, Operand], ...],
        outs: tuple[Operand, ...],
        touched: Accesses,
        fresh: range,
        depends: int,
        draws: bool,
    ) -> None:
        """Write one op down. One that leaves nothing but Python values was a host read of a constant: it is gone."""
        written = {view.storage for view in (*touched.changed, *touched.overwritten)}
        for index in written:
            self.table.depends[index] |= depends
        written.update(fresh)
        if not written and not effects.asserts and not any(views_of(outs)):
            return
        computes = (bool(written) or effects.asserts) and not effects.reserves
        reads = tuple(sorted({view.storage for view in touched.read})) if computes else ()
        writes = tuple(sorted(written)) if computes else ()
        source = self.lines.here() if self.with_source else ""
        self.ops.append(Op(effects.name, args, kwargs, outs, reads, writes, source, draws))

    def _operand(self, value: Any, effects: Effects) -> Operand:
        if isinstance(value, Tensor):
            return self._view(value, effects.name)
        if isinstance(value, list | tuple):
            return tuple([self._operand(item, effects) for item in value])
        return encode_literal(value, self.target)

    def _view(self, tensor: Tensor, used_by: str) -> View:
        index = self.table.find(tensor)
        if index is None:
            raise self._failed(hazards.from_nowhere(tensor, used_by, self.lines.quoted()))
        if self.table.kinds[index] == "scratch" and self._is_changing_host(index):
            names = self.table.names_of(self.table.depends[index])
            raise self._failed(hazards.moved_to_host(names, self.lines.quoted()))
        return self.table.view(tensor, index)

    def _is_changing_host(self, index: int) -> bool:
        """Return whether a storage lies on the host, beside the traced device, and changes from run to run. An op may
        leave such results beside others (attention's generator words): they are refused once something uses them."""
        return self.table.hosts[index] and bool(self.table.depends[index] & ~StorageTable.WEIGHT)

    def _result(self, value: Any, depends: int) -> Operand:
        if isinstance(value, Tensor):
            index = self.table.find(value)
            if index is None:
                index = self.table.add("scratch", "", value, depends)
            return self.table.view(value, index)
        if isinstance(value, list | tuple):
            return tuple([self._result(item, depends) for item in value])
        return encode_literal(value, self.target)

    def _depends(self, effects: Effects, touched: Accesses) -> int:
        """Return what the results depend on: all that the op reads."""
        depends = 0
        if not effects.shape_only:
            for view in touched.read:
                depends |= self.table.depends[view.storage]
        return depends

    def _save(self, touched: Accesses) -> None:
        """Keep the bytes of an input or leaf before an op changes them."""
        for view in (*touched.changed, *touched.overwritten):
            bound = self.table.bound.get(view.storage)
            if bound is not None and view.storage not in self.saved:
                whole = torch.empty(0, dtype=torch.uint8, device=bound.device).set_(bound.untyped_storage())
                self.saved[view.storage] = whole.clone()

    def _refuse(
        self, effects: Effects, args: tuple[Operand, ...], kwargs: tuple[tuple[str, Operand], ...], depends: int
    ) -> None:
        """Raise for an op whose replay could not be the same."""
        if flags() != self.flags:
            raise hazards.flags_changed(self.flags, flags(), self.lines.quoted())
        if effects.normalises and hazards.updates_statistics(effects.name, args, dict(kwargs)):
            modules = hazards.in_training(self.table.weights.model, "norm")
            raise hazards.batch_norm_training(effects.name, modules, self.lines.quoted())
        if not depends & ~StorageTable.WEIGHT:
            return
        if effects.host_read:
            raise self._host_read(effects.name, depends)
        if effects.dynamic_shape:
            deciding = hazards.shape_operands(effects.name, args, dict(kwargs))
            if any(not self.table.is_constant(view.storage) for view in deciding):
                raise hazards.shape_from_data(effects.name, self.table.names_of(depends), self.lines.quoted())

    def _refuse_dropout(self, effects: Effects) -> None:
        model = self.table.weights.model
        if hazards.is_dropout(effects.name, model, self.lines):
            modules = hazards.in_training(model, "dropout")
            raise hazards.dropout_training(effects.name, modules, self.lines.quoted())

    def _host_read(self, how: str, depends: int) -> CadenceError:
        return hazards.host_read(how, self.table.names_of(depends), self.lines.quoted())

    def _located(self, error: CadenceError) -> CadenceError:
        """Return the error with the line of the model that caused it."""
        at = self.lines.quoted()
        return type(error)(error.code, error.what, expected=error.expected, got=error.got, at=at, hint=error.hint)

    def _failed(self, error: CadenceError) -> CadenceError:
        self.error = self.error or error
        return error

    def _lift(self, func: Any, tensor: Tensor) -> Tensor:
        """A tensor made outside of torch's dispatch (`torch.tensor`, `from_numpy`): a constant, copied before use."""
        result: Tensor = func(tensor)
        if self.table.find(tensor) is None:
            constant = self.table.add_constant(tensor)
            source = self.table.view(tensor, constant)
            copy = self.table.add("scratch", "", tensor, 0)
            out = self.table.view(result, copy)
            line = self.lines.here() if self.with_source else ""
            self.ops.append(Op("aten::clone", (source,), (), (out,), (constant,), (copy,), line))
        return result
