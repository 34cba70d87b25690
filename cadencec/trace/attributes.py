"""Everything that a model holds, by path: what a step changed can be told by walking before and after it.

Model.layers[0].cache = tensor   ->  `layers.0.cache`        Model.seen = {"n": 3}   ->  `seen.n`
"""

import sys
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from typing import Literal as OneOf

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

AttributeKind = OneOf["parameter", "buffer", "attribute"]

Scalar = bool | int | float | complex | str | bytes | None
SCALARS = (bool, int, float, complex, str, bytes, type(None))

_MODULE_INTERNALS = frozenset(vars(nn.Module())) - {"training"}
_LEAVES = (Tensor, np.ndarray, *SCALARS)
_CONTAINERS = (nn.Module, Mapping, list, tuple, deque, set, frozenset, types.SimpleNamespace)
_OPAQUE = (types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, type, weakref.ref)
_OPAQUE_PACKAGES = frozenset(sys.stdlib_module_names) | {"torch", "numpy"}
"""Objects of these packages that are no containers hold no state of a model: loggers, locks, streams, compilers."""

MAX_ENTRIES = 4096
"""Of a longer list or dict (a vocabulary) only the length is looked at."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A tensor, numpy array or scalar that a model holds at `path`. For a tensor `place` is where it stood when it was
    met (`tensor.data = other` moves it), and `storage` keeps that from being reused; an array is a copy."""

    path: str
    kind: AttributeKind
    value: Tensor | np.ndarray[Any, Any] | Scalar
    storage: torch.UntypedStorage | None = None
    place: tuple[Any, ...] = ()

    def tensor(self) -> Tensor:
        """Return the tensor as it stood when it was met."""
        storage, (_, offset, dtype, shape, stride) = cast(torch.UntypedStorage, self.storage), self.place
        return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, stride)


def attribute(path: str, kind: AttributeKind, value: Any) -> Attribute:
    """Return what a model holds at a path as it is now."""
    if isinstance(value, np.ndarray):
        return Attribute(path, kind, value.copy())
    if not isinstance(value, Tensor):
        return Attribute(path, kind, value)
    if is_lazy(value) or value.layout != torch.strided:
        return Attribute(path, kind, None)
    storage = value.untyped_storage()
    place = (storage._cdata, value.storage_offset(), value.dtype, value.shape, value.stride())
    return Attribute(path, kind, value, storage, place)


def walk(model: object) -> list[Attribute]:
    """Return what the model holds, in the order in which it was set; an object held twice is met once."""
    return _visit(model).leaves


def modules_of(model: object) -> list[tuple[str, nn.Module]]:
    """Return every module that a model holds, with its path, the model itself included."""
    return _visit(model).modules


@dataclass(slots=True)
class _Visit:
    """What a walk has found so far. `seen` keeps the objects themselves: some are made for the walk, and another one
    must not come to stand at their address."""

    leaves: list[Attribute] = field(default_factory=list)
    modules: list[tuple[str, nn.Module]] = field(default_factory=list)
    seen: dict[int, object] = field(default_factory=dict)

    def enter(self, value: object, path: str, kind: AttributeKind) -> None:
        if isinstance(value, _LEAVES):
            self.leaves.append(attribute(path, kind, value))
            return
        if id(value) in self.seen or _is_opaque(value):
            return
        self.seen[id(value)] = value
        if isinstance(value, nn.Module):
            self.modules.append((path, value))
        prefix = f"{path}." if path else ""
        for name, child, child_kind in _children(value):
            self.enter(child, prefix + name, child_kind)


def _visit(model: object) -> _Visit:
    visit = _Visit()
    visit.enter(model, "", "attribute")
    return visit


def _is_opaque(value: object) -> bool:
    if isinstance(value, _OPAQUE):
        return True
    if isinstance(value, _CONTAINERS):
        return False
    package, _, rest = type(value).__module__.partition(".")
    return package in _OPAQUE_PACKAGES and not rest.startswith("distributions")


Child = tuple[str, object, AttributeKind]


def _children(value: object) -> Iterable[Child]:
    if isinstance(value, set | frozenset):
        return [("set", " ".join(sorted(map(repr, value))), "attribute")] if len(value) <= MAX_ENTRIES else []
    if isinstance(value, dict | list | tuple) and len(value) > MAX_ENTRIES:
        return [("length", len(value), "attribute")]
    if isinstance(value, nn.Module):
        scripted = isinstance(value, torch.jit.ScriptModule)
        return _script_children(value) if scripted else _module_children(value)  # type: ignore[arg-type]
    if isinstance(value, dict | Mapping):
        return [(str(key), child, "attribute") for key, child in value.items()]
    if isinstance(value, list | tuple | deque):
        return [(str(index), child, "attribute") for index, child in enumerate(value)]
    return [(name, child, "attribute") for name, child in _fields(value)]


def _module_children(module: nn.Module) -> list[Child]:
    own = vars(module).items()
    return _registered(module) + [(name, child, "attribute") for name, child in own if name not in _MODULE_INTERNALS]


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
