"""A tape as one graph for torch's C++ interpreter.

Python would cost more than the ops of a small model, so a tape is translated once and then run by one call. Views whose
memory is known at load are passed in as tensors; a result that could not be planned is a value of the graph, and other
views of it are `as_strided`.

    graph(%tensors : Tensor[]):
      %x, %h, %y = prim::ListUnpack(%tensors)
      %1 = aten::mm(%x, %h, %y)        # the out= overload: writes into the arena
      %2 = aten::convolution(%y, ...)  # allocates
      %3 = aten::copy_(%h, %2)         # stores the new state

The interpreter runs ops in the order of the tape and its optimiser is off: nothing is fused, folded or moved.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cadence_runtime.cpu.literals import decode
from cadence_runtime.cpu.ops import OUT_VARIANTS
from cadence_runtime.format.tape import Literal, Op, Operand, Tape, View

Locate = Callable[[View], Tensor]
"""Returns a view as a tensor; its storage has memory."""


class GraphBuilder:
    """Translates one tape. `located` says which storages have memory, `locate` returns views of those."""

    def __init__(self, tape: Tape, located: frozenset[int], locate: Locate) -> None:
        self.tape, self.located, self.locate = tape, located, locate
        self.tensors: list[Tensor] = []
        self._graph: Any = torch._C.Graph()
        tensors = self._graph.addInput()
        tensors.setType(torch._C.ListType.ofTensors())
        self._unpack = self._graph.create("prim::ListUnpack", [tensors], 0)
        self._graph.appendNode(self._unpack)
        self._passed: dict[View, Any] = {}
        self._made: dict[int, tuple[View, Any]] = {}

    def finish(self) -> "Script":
        """Return the graph as something to call."""
        self._graph.registerOutput(self._graph.insertConstant(None))
        return Script(torch._C._create_function_from_graph("stage", self._graph), self.tensors)

    def add_op(self, op: Op) -> None:
        """Append one op of the tape."""
        target = self._planned_output(op)
        name = OUT_VARIANTS[op.name] if target is not None else op.name
        values = [
            self.external(self.locate(target))
            if target is not None and argument.is_out
            else self._argument(op, i, argument)
            for i, argument in enumerate(schema_of(name).arguments)
        ]
        node = self._append(op.name.partition(".")[0], values, len(op.outs))
        if target is None:
            mutated = self._mutated(op, name)
            for out, value in zip(op.outs, node.outputs(), strict=True):
                self._keep(out, value, mutated)

    def copy(self, target: Tensor, source: Any) -> None:
        """Append a copy of a value into memory outside of the tape."""
        self._append("aten::copy_", [self.external(target), source, self._graph.insertConstant(False)], 1)

    def clone(self, source: Any) -> Any:
        """Append a copy of a value and return it."""
        return self._append("aten::clone", [source, self._graph.insertConstant(None)], 1).output()

    def external(self, tensor: Tensor) -> Any:
        """Return the value of a tensor that is passed in."""
        self.tensors.append(tensor)
        return self._unpack.addOutput()

    def value(self, view: View) -> Any:
        """Return the value of a view."""
        if view.storage in self.located:
            if view not in self._passed:
                self._passed[view] = self.external(self.locate(view))
            return self._passed[view]
        made, value = self._made[view.storage]
        return value if view == made else self._window(value, view)

    def _window(self, value: Any, view: View) -> Any:
        """Return another view of a result, of the same dtype: others are of storages with memory."""
        constant = self._graph.insertConstant
        sizes, strides = constant(list(view.sizes)), constant(list(view.strides))
        value = self._append("aten::as_strided", [value, sizes, strides, constant(view.offset)], 1).output()
        if view.conj:
            value = self._append("aten::_conj", [value], 1).output()
        return self._append("aten::_neg_view", [value], 1).output() if view.neg else value

    def _planned_output(self, op: Op) -> View | None:
        """Return the output that the op writes into memory that is there already, if it makes one."""
        if op.name not in OUT_VARIANTS or len(op.outs) != 1:
            return None
        out = op.outs[0]
        return out if isinstance(out, View) and out.storage in self.located else None

    def _argument(self, op: Op, index: int, argument: Any) -> Any:
        named = dict(op.kwargs)
        if argument.name in named:
            return self._operand(named[argument.name], argument.type)
        if index < len(op.args) and not argument.kwarg_only:
            return self._operand(op.args[index], argument.type)
        return self._graph.insertConstant(argument.default_value)

    def _operand(self, operand: Operand, kind: Any) -> Any:
        if isinstance(operand, View):
            return self.value(operand)
        if isinstance(operand, Literal):
            return self._graph.insertConstant(_constant(operand))
        if any(isinstance(item, View) for item in operand):
            return self._list(operand)
        items = [decode(item) for item in operand if isinstance(item, Literal)]
        if not items:
            return self._empty_list(kind)
        return self._graph.insertConstant(items)

    def _list(self, operands: tuple[Operand, ...]) -> Any:
        values = [self._operand(item, None) for item in operands]
        node = self._append("prim::ListConstruct", values, 1)
        holes = any(isinstance(item, Literal) for item in operands)
        element = torch._C.OptionalType(torch._C.TensorType.get()) if holes else torch._C.TensorType.get()
        node.output().setType(torch._C.ListType(element))
        return node.output()

    def _empty_list(self, kind: Any) -> Any:
        node = self._append("prim::ListConstruct", [], 1)
        inner = kind.getElementType() if isinstance(kind, torch._C.OptionalType) else kind
        node.output().setType(inner)
        return node.output()

    def _mutated(self, op: Op, name: str) -> frozenset[int]:
        """Return the storages that the op writes through its operands."""
        named = dict(op.kwargs)
        found: set[int] = set()
        for index, argument in enumerate(schema_of(name).arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                operand = named.get(argument.name, op.args[index] if index < len(op.args) else None)
                found.update(view.storage for view in (operand,) if isinstance(view, View))
        return frozenset(found)

    def _keep(self, out: Operand, value: Any, mutated: frozenset[int]) -> None:
        """Remember a result, or copy it to where it belongs; a list of results is unpacked."""
        if isinstance(out, tuple):
            value.setType(torch._C.ListType.ofTensors())
            node = self._append("prim::ListUnpack", [value], len(out))
            for item, each in zip(out, node.outputs(), strict=True):
                self._keep(item, each, mutated)
        elif isinstance(out, View) and out.storage not in mutated:
            if out.storage in self.located:
                self.copy(self.locate(out), value)
            elif out.storage not in self._made:
                self._made[out.storage] = (out, value)

    def _append(self, kind: str, inputs: Sequence[Any], outputs: int) -> Any:
        node = self._graph.create(kind, list(inputs), outputs)
        self._graph.appendNode(node)
        return node


class Script:
    """A graph to run over and over on the same tensors."""

    def __init__(self, function: Callable[[object], None], tensors: list[Tensor]) -> None:
        self._function = function
        # The interpreter's own kind of list: a Python list would be converted at each call.
        self._tensors: object = torch._C.ScriptList(tensors) if tensors else []

    def __call__(self) -> None:
        """Run once, without autograd and without the optimiser. Both switches are the process's, so they are put back;
        the raw functions take a tenth of the time of torch's context managers."""
        grad, optimised = torch.is_grad_enabled(), torch._C._get_graph_executor_optimize()
        torch._C._set_grad_enabled(False)
        torch._C._set_graph_executor_optimize(False)
        try:
            self._function(self._tensors)
        finally:
            torch._C._set_graph_executor_optimize(optimised)
            torch._C._set_grad_enabled(grad)


MEMORY_FORMATS = {"contiguous_format": 0, "preserve_format": 1, "channels_last": 2, "channels_last_3d": 3}
LAYOUTS = {"strided": 0}
"""The interpreter knows these by the numbers of their C++ enums."""


def _constant(literal: Literal) -> object:
    if literal.kind == "memory_format":
        return MEMORY_FORMATS[literal.text]
    return LAYOUTS[literal.text] if literal.kind == "layout" else decode(literal)


_schemas: dict[str, Any] = {}


def schema_of(name: str) -> Any:
    """Return torch's schema of an op by name and overload."""
    if name not in _schemas:
        base, _, overload = name.partition(".")
        found: Mapping[str, Any] = {s.overload_name: s for s in torch._C._jit_get_schemas_for_operator(base)}
        _schemas[name] = found[overload]
    return _schemas[name]
