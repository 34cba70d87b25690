"""The dispatch mode that writes down every op of a running stage.

It stands below autograd and autocast, so what it sees are the ops that really run, casts included. An op costs some
tens of microseconds: its operands become views, what it touches follows from its schema, and what its results depend
on is passed from storage to storage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

import torch
from torch import Tensor

from cadence_runtime.errors import CadenceError
from cadence_runtime.format.tape import Binding, Literal, Op, Operand, View
from cadencec.trace import hazards
from cadencec.trace.dispatch import DispatchMode
from cadencec.trace.draws import Generators
from cadencec.trace.effects import NO_ACCESSES, Accesses, Effects, accesses, effects_of
from cadencec.trace.flags import flags
from cadencec.trace.operands import encode_literal, views_of
from cadencec.trace.source import SourceLines
from cadencec.trace.storages import StorageTable
from cadencec.trace.template import DepartedError, Place, Template, follow, follow_named, place_of
from cadencec.trace.weights import Weights


class Recorder(DispatchMode):  # type: ignore[no-untyped-call]
    """Records ops while it is active. `error` is the first error raised inside, whatever the model made of it;
    `saved` are the bytes of inputs and leaves from before their first change. Ops are recorded along a `template` as
    far as they fit it, without one with their source lines; `places` is the template of this recording. `departed`
    says that an op came whose source line the template did not tell."""

    def __init__(self, device: torch.device, weights: Weights, template: Template | None) -> None:
        super().__init__()
        self.target, self.with_source, self.template = device, template is None, template or ()
        self.places: list[Place | None] = []
        self.departed = False
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
        position = len(self.places)
        self.places.append(None)
        try:
            known = self.template[position] if position < len(self.template) else None
            if known is None or known.func is not func:
                return self._dispatch(_Call(position, func, args, kwargs, None))
            if known.is_view:
                self.places[position] = known
                return func(*args, **kwargs)
            try:
                return self._follow(position, known, args, kwargs)
            except DepartedError:  # it comes before the op runs
                return self._dispatch(_Call(position, func, args, kwargs, known.op.source))
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

    def _dispatch(self, call: "_Call") -> Any:
        func = call.func
        effects = self._effects.get(func)
        if effects is None:
            effects = self._effects[func] = effects_of(func.name())
        if effects.composite:
            return self._decompose(call, effects)
        if effects.ignored:
            return func(*call.args, **call.kwargs)
        if effects.moves_view:
            result = func(*call.args, **call.kwargs)
            self.table.resized(call.args[0])
            return result
        if effects.name == "aten::lift_fresh":
            return self._lift(call, effects)
        return self._record(call, effects)

    def _follow(self, position: int, place: Place, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run an op that fits the template, and write it down. Raises DepartedError before it runs."""
        if not place.is_followed:
            raise DepartedError
        op, table = place.op, self.table
        operands = follow(args, place.args, table)
        named = follow_named(kwargs, place, table) if kwargs or op.kwargs else ()
        if op.reads or op.writes:
            self._check_flags()
        if place.changes:
            self._save(place.changes)
        depends = 0
        if not place.effects.shape_only:
            for index in op.reads:
                depends |= table.depends[index]

        result = place.func(*args, **kwargs)

        before = len(table.kinds)
        results = result if isinstance(result, tuple) else (result,)
        outs = self._again(results, op.outs, depends)
        if outs is None:  # the op left something else: that is looked at like one never seen
            call = _Call(position, place.func, args, kwargs, op.source)
            given = _Given(operands, named, accesses(place.effects, operands, dict(named)), depends, met_any=True)
            self._append(call, place.effects, given, self._results(results, depends), before)
            return result
        for index in place.changes:
            table.depends[index] |= depends
        is_same = operands is op.args and outs is op.outs and (named is op.kwargs or not named)
        self.ops.append(op if is_same else Op(op.name, operands, named, outs, op.reads, op.writes, op.source))
        self.places[position] = place
        return result

    def _again(self, values: Sequence[Any], known: tuple[Operand, ...], depends: int) -> tuple[Operand, ...] | None:
        """Return results as operands, `known` itself where they are that; None where they stand on other storages."""
        table, outs = self.table, list[Operand]()
        for value, before in zip(values, known, strict=True):
            out: Operand | None = None
            if isinstance(before, View) and isinstance(value, Tensor):
                if before.storage == len(table.kinds):
                    table.add_fresh(value, depends)
                out = table.again(value, before)
            elif isinstance(before, tuple) and isinstance(value, list | tuple) and len(before) == len(value):
                out = self._again(value, before, depends)
            elif isinstance(before, Literal) and not isinstance(value, Tensor | list | tuple):
                out = encode_literal(value, self.target)
            if out is None:
                return None
            outs.append(out)
        return known if all(map(is_, outs, known)) else tuple(outs)

    def _decompose(self, call: "_Call", effects: Effects) -> Any:
        with self:
            result = call.func.decompose(*call.args, **call.kwargs)
        if result is NotImplemented:
            raise hazards.composite(effects.name, self.lines.quoted())
        return result

    def _record(self, call: "_Call", effects: Effects) -> Any:
        given = self._given(call, effects)
        self._refuse(effects, given)
        self._save([view.storage for view in (*given.touched.changed, *given.touched.overwritten)])
        if effects.seeded:
            self.generators.check_operands((*call.args, *call.kwargs.values()), effects.name, self.lines)
            self.generators.check_unmoved(self.lines)

        result = call.func(*call.args, **call.kwargs)

        draws = effects.seeded and self.generators.moved()
        if draws:
            given = replace(given, depends=given.depends | StorageTable.DRAW)
            self._refuse_dropout(effects)
        before = len(self.table.kinds)
        outs = self._results(result if isinstance(result, tuple) else (result,), given.depends)
        for _, name, whole in effects.mutated:
            if whole and name in call.kwargs:
                self.table.resized(call.kwargs[name])
        fresh = range(before, len(self.table.kinds))
        if fresh and all(self._is_changing_host(index) for index in fresh):
            raise hazards.moved_to_host(self.table.names_of(given.depends), self.lines.quoted())
        self._append(call, effects, given, outs, before, draws=draws)
        return result

    def _given(self, call: "_Call", effects: Effects) -> "_Given":
        known = len(self.table.kinds)
        args = tuple([self._operand(arg, effects) for arg in call.args])
        kwargs = tuple([(key, self._operand(call.kwargs[key], effects)) for key in sorted(call.kwargs)])
        touched = accesses(effects, args, dict(kwargs))
        return _Given(args, kwargs, touched, self._depends(effects, touched), len(self.table.kinds) > known)

    def _append(
        self,
        call: "_Call",
        effects: Effects,
        given: "_Given",
        outs: tuple[Operand, ...],
        before: int,
        *,
        draws: bool = False,
    ) -> None:
        """Write one op down; storages from `before` on are fresh. One that leaves nothing but Python values was a host
        read of a constant: it is gone."""
        touched, table = given.touched, self.table
        written = {view.storage for view in (*touched.changed, *touched.overwritten)}
        for index in written:
            table.depends[index] |= given.depends
        written.update(range(before, len(table.kinds)))
        if not written and not effects.asserts and not any(views_of(outs)):
            return
        computes = (bool(written) or effects.asserts) and not effects.reserves
        reads = tuple(sorted({view.storage for view in touched.read})) if computes else ()
        writes = tuple(sorted(written)) if computes else ()
        source = self._source(call.source)
        op = Op(effects.name, given.args, given.kwargs, outs, reads, writes, source, draws)
        self.ops.append(op)
        self.places[call.position] = place_of(
            call.func, effects, op, call.args, call.kwargs, touched, met_any=given.met_any
        )

    def _results(self, values: Sequence[Any], depends: int) -> tuple[Operand, ...]:
        return tuple([self._result(value, depends) for value in values])

    def _source(self, told: str | None) -> str:
        """Return the line that an op comes from: from the stack, or as the template told it."""
        if self.with_source:
            return self.lines.here()
        self.departed = self.departed or told is None
        return told or ""

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

    def _save(self, changes: Sequence[int]) -> None:
        """Keep the bytes of inputs and leaves before an op changes them."""
        for index in changes:
            bound = self.table.bound.get(index)
            if bound is not None and index not in self.saved:
                whole = torch.empty(0, dtype=torch.uint8, device=bound.device).set_(bound.untyped_storage())
                self.saved[index] = whole.clone()

    def _check_flags(self) -> None:
        if flags() != self.flags:
            raise hazards.flags_changed(self.flags, flags(), self.lines.quoted())

    def _refuse(self, effects: Effects, given: "_Given") -> None:
        """Raise for an op whose replay could not be the same."""
        self._check_flags()
        if effects.normalises and hazards.updates_statistics(effects.name, given.args, dict(given.kwargs)):
            modules = hazards.in_training(self.table.weights.model, "norm")
            raise hazards.batch_norm_training(effects.name, modules, self.lines.quoted())
        if not given.depends & ~StorageTable.WEIGHT:
            return
        if effects.host_read:
            raise self._host_read(effects.name, given.depends)
        if effects.dynamic_shape:
            deciding = hazards.shape_operands(effects.name, given.args, dict(given.kwargs))
            if any(not self.table.is_constant(view.storage) for view in deciding):
                raise hazards.shape_from_data(effects.name, self.table.names_of(given.depends), self.lines.quoted())

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

    def _lift(self, call: "_Call", effects: Effects) -> Tensor:
        """A tensor made outside of torch's dispatch (`torch.tensor`, `from_numpy`): a constant, copied before use."""
        (tensor,) = call.args
        result: Tensor = call.func(tensor)
        if self.table.find(tensor) is None:
            constant = self.table.add_constant(tensor)
            view = self.table.view(tensor, constant)
            copy = self.table.add("scratch", "", tensor, 0)
            out, source = self.table.view(result, copy), self._source(call.source)
            op = Op("aten::clone", (view,), (), (out,), (constant,), (copy,), source)
            self.ops.append(op)
            self.places[call.position] = place_of(call.func, effects, op, (tensor,), {}, NO_ACCESSES, met_any=True)
        return result


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of an op, and its source line where the template tells it."""

    position: int
    func: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    source: str | None


@dataclass(frozen=True, slots=True)
class _Given:
    """The operands of a call; `met_any` says that a storage among them was met for the first time."""

    args: tuple[Operand, ...]
    kwargs: tuple[tuple[str, Operand], ...]
    touched: Accesses
    depends: int
    met_any: bool
