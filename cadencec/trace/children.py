"""What is inside of an object that a model holds: attributes, entries, elements, and what its code closes over."""

import queue
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from typing import Literal as OneOf

import torch
from torch import Tensor, nn

AttributeKind = OneOf["parameter", "buffer", "attribute"]

Child = tuple[str, object, AttributeKind]

CONTAINERS = (
    nn.Module, dict, list, tuple, Mapping, deque, set, frozenset, types.SimpleNamespace, types.FunctionType,
    types.GeneratorType, partial, queue.Queue,
)  # fmt: skip
"""Kinds of objects that hold others, wherever they are from."""

MAX_ENTRIES = 4096
"""Of a longer list or dict (a vocabulary) only the length is looked at."""

_MODULE_INTERNALS = frozenset(vars(nn.Module())) - {"training"}


def children_of(value: object) -> Iterable[Child]:
    """Return what is inside of an object, by name."""
    if isinstance(value, nn.Module):
        scripted = isinstance(value, torch.jit.ScriptModule)
        return _script_children(value) if scripted else _module_children(value)  # type: ignore[arg-type]
    if isinstance(value, set | frozenset):
        return [("set", " ".join(sorted(map(repr, value))), "attribute")] if len(value) <= MAX_ENTRIES else []
    if isinstance(value, dict | list | tuple) and len(value) > MAX_ENTRIES:
        return [("length", len(value), "attribute")]
    if isinstance(value, dict | types.MappingProxyType):
        # Other mappings, and `items` of some dicts, load or resolve things; what they hold are their fields.
        pairs = dict.items(value) if isinstance(value, dict) else value.items()
        return [(str(key), child, "attribute") for key, child in pairs]
    if isinstance(value, list | tuple | deque):
        return [(str(index), child, "attribute") for index, child in enumerate(value)]
    special = next((children for kind, children in _CODE.items() if isinstance(value, kind)), None)
    return special(value) if special else [(name, child, "attribute") for name, child in _fields(value)]


def cells_of(function: types.FunctionType) -> list[Child]:
    """Return the variables that a function closes over."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return [(name, cell.cell_contents, "attribute") for name, cell in cells if _is_filled(cell)]


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises where nothing is bound yet
    except ValueError:
        return False
    return True


def _defaults(function: types.FunctionType) -> list[Child]:
    """Return the default arguments of a function."""
    named: list[tuple[object, object]] = [*enumerate(function.__defaults__ or ())]
    named += (function.__kwdefaults__ or {}).items()
    return [(f"default {name}", value, "attribute") for name, value in named]


def _generator(generator: Iterator[Any]) -> list[Child]:
    frame = getattr(generator, "gi_frame", None)
    names = {} if frame is None else {**frame.f_locals, "position": frame.f_lasti}
    return [(name, value, "attribute") for name, value in names.items()]


def _partial(value: "partial[Any]") -> list[Child]:
    found: dict[str, object] = {"func": value.func, **{str(i): a for i, a in enumerate(value.args)}, **value.keywords}
    return [(name, child, "attribute") for name, child in found.items()]


_CODE: dict[Any, Callable[[Any], list[Child]]] = {
    types.FunctionType: lambda function: cells_of(function) + _defaults(function),
    types.GeneratorType: _generator,
    partial: _partial,
    queue.Queue: lambda value: [("queue", value.queue, "attribute")],
}


def _module_children(module: nn.Module) -> list[Child]:
    own = [(name, child) for name, child in vars(module).items() if name not in _MODULE_INTERNALS]
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    named = [(f"hook {number}", hook) for number, hook in enumerate(hooks)]
    return _registered(module) + [(name, child, "attribute") for name, child in (*own, *named)]


def _registered(module: nn.Module) -> list[Child]:
    found: list[Child] = [(name, child, "parameter") for name, child in module._parameters.items()]
    found += [(name, child, "buffer") for name, child in module._buffers.items()]
    found += [(name, child, "attribute") for name, child in module._modules.items()]
    return found


def _script_children(module: torch.jit.ScriptModule) -> list[Child]:
    found = _registered(module)
    known = {name for name, _, _ in found}
    names = [name for name in script_attributes(module) if name not in known]
    found += [(name, module._c.getattr(name), "attribute") for name in names]
    return found + [(name, tensor, "attribute") for name, tensor in _script_constants(module)]


def _script_constants(module: torch.jit.ScriptModule) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that stand in the code itself: those of traced and of frozen modules."""
    for method in module._c._method_names():
        nodes = module._c._get_method(method).graph.findAllNodes("prim::Constant")
        tensors = [node.t("value") for node in nodes if node.hasAttribute("value") and node.kindOf("value") == "t"]
        yield from ((f"{method}.{index}", tensor) for index, tensor in enumerate(tensors))


def script_attributes(module: torch.jit.ScriptModule) -> list[str]:
    """Return the attributes of a scripted module that its own methods name; it has no list of all."""
    names: dict[str, None] = {}
    for method in module._c._method_names():
        graph = module._c._get_method(method).graph
        itself = next(iter(graph.inputs())).debugName()
        for kind in ("prim::GetAttr", "prim::SetAttr"):
            for node in graph.findAllNodes(kind):
                if next(iter(node.inputs())).debugName() == itself:
                    names[node.s("name")] = None
    return sorted(name for name in names if module._c.hasattr(name))


def _fields(value: object) -> Iterator[tuple[str, object]]:
    slots = [name for cls in type(value).__mro__ for name in _as_tuple(getattr(cls, "__slots__", ()))]
    for name in slots:
        if name not in ("__dict__", "__weakref__") and hasattr(value, name):
            yield name, getattr(value, name)
    yield from getattr(value, "__dict__", {}).items()


def _as_tuple(slots: object) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)  # type: ignore[arg-type]
