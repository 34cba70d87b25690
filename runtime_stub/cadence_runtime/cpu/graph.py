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

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cadence_runtime.cpu.check import unmade, wrong_operands
from cadence_runtime.cpu.literals import HOST, decode
from cadence_runtime.cpu.ops import OUT_VARIANTS, numbers, schema_of, stand_for_tensors, writes_in_place
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
        self._views: dict[View, Any] = {}
        self._made: dict[int, Any] = {}

    def finish(self) -> "Script":
        """Return the graph as something to call."""
        self._graph.registerOutput(self._graph.insertConstant(None))
        return Script(torch._C._create_function_from_graph("stage", self._graph), self.tensors)

    def add_op(self, op: Op) -> None:
        """Append one op of the tape, unless it only makes views of what is there."""
        if not op.reads and not op.writes and all(map(self._is_there, op.outs)):
            return
        target = self._planned_output(op)
        name = OUT_VARIANTS[op.name] if target is not None else op.name
        arguments = schema_of(name).arguments
        values = [
            self.external(self.locate(target))
            if target is not None and argument.is_out
            else self._argument(op, i, argument)
            for i, argument in enumerate(arguments)
        ]
        try:
            node = self._append(op.name.partition(".")[0], values, len(op.outs))
            self._check(op, name, node)
        except RuntimeError as error:  # no overload takes these values
            raise wrong_operands(self.tape.stage, op, name, str(error).partition("\n")[0]) from None
        if target is None:
            mutated = _mutated(op, arguments)
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
        """Return the value of a view. Raises PlanError CAD5602 for one of a result that no op has made yet."""
        if view not in self._views:
            self._views[view] = self._new_value(view)
        return self._views[view]

    def _new_value(self, view: View) -> Any:
        if view.storage in self.located:
            return self.external(self.locate(view))
        if view.storage in self._made:
            return self._window(self._made[view.storage], view)
        raise unmade(self.tape.stage, view.storage)

    def _window(self, value: Any, view: View) -> Any:
        """Return another view of a result, of the same dtype: others are of storages with memory."""
        sizes, strides = self._ints(view.sizes), self._ints(view.strides)
        offset = self._graph.insertConstant(view.offset)
        value = self._append("aten::as_strided", [value, sizes, strides, offset], 1).output()
        if view.conj:
            value = self._append("aten::_conj", [value], 1).output()
        return self._append("aten::_neg_view", [value], 1).output() if view.neg else value

    def _ints(self, values: tuple[int, ...]) -> Any:
        return self._graph.insertConstant(list(values)) if values else self._list([], torch._C.ListType.ofInts())

    def _list(self, values: Sequence[Any], kind: Any) -> Any:
        """Return a list of a type: the interpreter tells lists apart by their elements, and an empty one has none."""
        node = self._append("prim::ListConstruct", values, 1)
        node.output().setType(kind)
        return node.output()

    def _check(self, op: Op, name: str, node: Any) -> None:
        """The interpreter picks the overload by the types of the values: hold it to the one that the tape names."""
        chosen = node.schema().partition("(")[0]
        if chosen != name and not (chosen.startswith(f"{name.partition('.')[0]}.Scalar") and numbers(op)):
            raise wrong_operands(self.tape.stage, op, name, node.schema())

    def _is_there(self, out: Operand) -> bool:
        if isinstance(out, tuple):
            return all(map(self._is_there, out))
        return not isinstance(out, View) or out.storage in self.located or out.storage in self._made

    def _planned_output(self, op: Op) -> View | None:
        """Return the output that the op writes into memory that is there already, if it makes one."""
        out = op.outs[0] if writes_in_place(op) else None
        return out if isinstance(out, View) and out.storage in self.located else None

    def _argument(self, op: Op, index: int, argument: Any) -> Any:
        operand = _given(op, index, argument)
        if operand is None:
            return self._graph.insertConstant(argument.default_value)
        if isinstance(operand, Literal) and isinstance(argument.type, torch._C.TensorType):
            operand_value = _as_tensor(operand) if stand_for_tensors(op, [operand]) else _constant(operand)
            return self._graph.insertConstant(operand_value)
        return self._operand(operand, argument.type)

    def _operand(self, operand: Operand, kind: Any) -> Any:
        if isinstance(operand, View):
            return self.value(operand)
        if isinstance(operand, Literal):
            return self._graph.insertConstant(_constant(operand))
        kind = kind.getElementType() if isinstance(kind, torch._C.OptionalType) else kind
        if operand and all(isinstance(item, Literal) for item in operand) and not _holds_tensors(kind):
            return self._graph.insertConstant([decode(item) for item in operand if isinstance(item, Literal)])
        return self._list([self._operand(item, kind.getElementType()) for item in operand], kind)

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
                self._made[out.storage] = self._views[out] = value

    def _append(self, kind: str, inputs: Sequence[Any], outputs: int) -> Any:
        node = self._graph.create(kind, list(inputs), outputs)
        self._graph.appendNode(node)
        return node


def _given(op: Op, index: int, argument: Any) -> Operand | None:
    """Return what an op is called with for an argument of its schema."""
    named = dict(op.kwargs)
    if argument.name in named or argument.kwarg_only:
        return named.get(argument.name)
    return op.args[index] if index < len(op.args) else None


def _as_tensor(number: Literal) -> Tensor:
    """Return a number as a tensor without dims, as wide as Python's."""
    kinds = {"bool": torch.bool, "int": torch.int64, "float": torch.float64, "complex": torch.complex128}
    return torch.tensor(decode(number), dtype=kinds[number.kind], device=HOST)


def _mutated(op: Op, arguments: Sequence[Any]) -> frozenset[int]:
    """Return the storages that the op writes through its operands."""
    operands = [
        _given(op, index, argument)
        for index, argument in enumerate(arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return frozenset(view.storage for view in operands if isinstance(view, View))


def _holds_tensors(kind: Any) -> bool:
    element = kind.getElementType()
    element = element.getElementType() if isinstance(element, torch._C.OptionalType) else element
    return isinstance(element, torch._C.TensorType)


_BELOW_AUTOGRAD = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU)
for _key in ("AutogradOther", "ADInplaceOrView", "AutocastCPU"):
    _BELOW_AUTOGRAD = _BELOW_AUTOGRAD | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _key))


class Script:
    """A graph to run over and over on the same tensors."""

    def __init__(self, function: Callable[[object], None], tensors: list[Tensor]) -> None:
        self._function = function
        # The interpreter's own kind of list: a Python list would be converted at each call.
        self._tensors: object = torch._C.ScriptList(tensors) if tensors else []

    def __call__(self) -> None:
        """Run once, without autograd, autocast and optimiser, as the tape was recorded. The switches are the calling
        thread's and are put back; the raw functions take a tenth of the time of torch's context managers."""
        grad, optimised = torch.is_grad_enabled(), torch._C._get_graph_executor_optimize()
        torch._C._set_grad_enabled(False)
        torch._C._set_graph_executor_optimize(False)
        try:
            with torch._C._ExcludeDispatchKeyGuard(_BELOW_AUTOGRAD):
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
