"""Everything that a model holds, by path: what a step changed can be told by walking before and after it.

Model.layers[0].cache = tensor   ->  `layers.0.cache`        Model.seen = {"n": 3}   ->  `seen.n`
"""

import types
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

import numpy as np
import torch
from torch import Tensor, nn

AttributeKind = OneOf["parameter", "buffer", "attribute"]

Scalar = bool | int | float | complex | str | bytes | None
SCALARS = (bool, int, float, complex, str, bytes, type(None))

_MODULE_INTERNALS = frozenset(vars(nn.Module())) - {"training"}
_OPAQUE = (types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, type, weakref.ref)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A tensor, numpy array or scalar that a model holds at `path`."""

    path: str
    kind: AttributeKind
    value: Tensor | np.ndarray[Any, Any] | Scalar


def walk(model: object) -> Iterator[Attribute]:
    """Yield what the model holds, in the order in which it was set; an object held twice is met once."""
    yield from _walk(model, "", "attribute", set())


def modules_of(model: object) -> list[tuple[str, nn.Module]]:
    """Return every module that a model holds, with its path, the model itself included."""
    found: list[tuple[str, nn.Module]] = []
    _collect_modules(model, "", set(), found)
    return found


def _collect_modules(value: object, path: str, seen: set[int], found: list[tuple[str, nn.Module]]) -> None:
    if isinstance(value, (Tensor, np.ndarray, *SCALARS, *_OPAQUE)) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, nn.Module):
        found.append((path, value))
    for name, child, _ in _children(value):
        _collect_modules(child, f"{path}.{name}" if path else name, seen, found)


def _walk(value: object, path: str, kind: AttributeKind, seen: set[int]) -> Iterator[Attribute]:
    if isinstance(value, (Tensor, np.ndarray, *SCALARS)):
        yield Attribute(path, kind, value)
        return
    if isinstance(value, _OPAQUE) or id(value) in seen:
        return
    seen.add(id(value))
    for name, child, child_kind in _children(value):
        yield from _walk(child, f"{path}.{name}" if path else name, child_kind, seen)


def _children(value: object) -> Iterator[tuple[str, object, AttributeKind]]:
    if isinstance(value, torch.jit.ScriptModule):
        yield from _script_children(value)
    elif isinstance(value, nn.Module):
        yield from _module_children(value)
    elif isinstance(value, Mapping):
        yield from ((str(key), child, "attribute") for key, child in value.items())
    elif isinstance(value, list | tuple | deque):
        yield from ((str(index), child, "attribute") for index, child in enumerate(value))
    else:
        yield from ((name, child, "attribute") for name, child in _fields(value))


def _module_children(module: nn.Module) -> Iterator[tuple[str, object, AttributeKind]]:
    yield from _registered(module)
    plain = ((name, child) for name, child in vars(module).items() if name not in _MODULE_INTERNALS)
    yield from ((name, child, "attribute") for name, child in plain)


def _registered(module: nn.Module) -> Iterator[tuple[str, object, AttributeKind]]:
    yield from ((name, child, "parameter") for name, child in module._parameters.items())
    yield from ((name, child, "buffer") for name, child in module._buffers.items())
    yield from ((name, child, "attribute") for name, child in module._modules.items())


def _script_children(module: torch.jit.ScriptModule) -> Iterator[tuple[str, object, AttributeKind]]:
    registered = list(_registered(module))
    yield from registered
    known = {name for name, _, _ in registered}
    for name in script_attributes(module):
        if name not in known:
            yield name, module._c.getattr(name), "attribute"
    yield from _script_constants(module)


def _script_constants(module: torch.jit.ScriptModule) -> Iterator[tuple[str, object, AttributeKind]]:
    """Yield the tensors that stand in the code itself: those of traced and of frozen modules."""
    for method in module._c._method_names():
        nodes = module._c._get_method(method).graph.findAllNodes("prim::Constant")
        tensors = [node.t("value") for node in nodes if node.hasAttribute("value") and node.kindOf("value") == "t"]
        yield from ((f"{method}.{index}", tensor, "attribute") for index, tensor in enumerate(tensors))


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
