"""Everything that a model holds, by path: what a step changed can be told by walking before and after it.

Model.layers[0].cache = tensor   ->  `layers.0.cache`        Model.seen = {"n": 3}   ->  `seen.n`
SimpleNamespace(step=net.step)   ->  `step.weight`           def step(s, x): net(x)  ->  `step.net.weight`

What a model holds are its attributes, the objects of bound methods, and the variables that functions close over. What
surrounds it can change as well, but is none of its tensors: attributes of its classes, globals of their modules,
default arguments.
"""

import io
import pickle
import re
import sys
import types
import warnings
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from hashlib import sha256
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from cadencec.trace.children import CONTAINERS, AttributeKind, Child, cells_of, children_of
from cadencec.trace.glance import Glance, Source

Scalar = bool | int | float | complex | str | bytes | None
SCALARS = (bool, int, float, complex, str, bytes, type(None))

_LEAVES = (Tensor, *SCALARS, np.ndarray, Enum)
_OPAQUE = (types.ModuleType, types.BuiltinFunctionType, type, weakref.ref)
_TORCH = "torch"
_LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy"}
"""Objects of these packages that are no containers are looked at from outside, by how they are pickled (an iterator,
an array, a generator of random numbers). What cannot be pickled is no state of a model: locks, streams, threads."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """An object of a library, as it was when it was met: equal ones have equal digests. `text` is for messages."""

    digest: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """A tensor, numpy array or scalar that a model holds at `path`. For a tensor `place` is where it stood when it was
    met (`tensor.data = other` moves it), and `storage` keeps that from being reused; an array is a copy."""

    path: str
    kind: AttributeKind
    value: Tensor | np.ndarray[Any, Any] | Scalar | Sealed
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
    place = place_of(value)
    return Attribute(path, kind, value, value.untyped_storage(), place) if place else Attribute(path, kind, None)


def place_of(tensor: Tensor) -> tuple[Any, ...]:
    """Return where a tensor stands; nothing for one without plain bytes."""
    if is_lazy(tensor) or tensor.layout != torch.strided:
        return ()
    storage = tensor.untyped_storage()
    return (storage._cdata, tensor.storage_offset(), tensor.dtype, tensor.shape, tensor.stride())


def walk(model: object) -> list[Attribute]:
    """Return what the model holds, in the order in which it was set; an object held twice is met once."""
    return _visit(model).leaves


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a model held at one moment, by path, and a glance that tells whether it holds that still."""

    attributes: Mapping[str, Attribute]
    glance: Glance


def walk_around(model: object) -> Snapshot:
    """Return what the model holds and what surrounds it."""
    visit = _visit(model)
    visit.enter_surroundings()
    return Snapshot({attribute.path: attribute for attribute in visit.leaves}, visit.glance)


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
    paths: set[str] = field(default_factory=set)
    glance: Glance = field(default_factory=Glance)

    def enter(self, value: object, path: str, kind: AttributeKind = "attribute") -> None:
        if isinstance(value, types.MethodType):
            value = value.__self__
        if isinstance(value, _LEAVES):
            self._found(str(value) if isinstance(value, Enum) else value, path, kind)
            if isinstance(value, Tensor | np.ndarray):
                state = place_of if isinstance(value, Tensor) else _bits
                self.glance.met(value, state)
            return
        if id(value) in self.seen or isinstance(value, _OPAQUE):
            return
        self.seen[id(value)] = value
        if not isinstance(value, CONTAINERS):
            package = _package(type(value))  # type: ignore[arg-type]
            if package in _LIBRARIES:
                self._found(_sealed(value), path, kind)
                self.glance.met(value, _sealed)
                return
            if package == _TORCH:
                return
        if isinstance(value, nn.Module):
            self.modules.append((path, value))
        self._enter_all(path, value, children_of)

    def enter_closures(self) -> None:
        """Enter what the methods of all objects close over, each class once."""
        for cls in self._classes():
            for name, function in _functions(cls):
                self._enter_all(f"{cls.__name__}.{name}", function, cells_of)

    def enter_surroundings(self) -> None:
        """Enter the attributes of the classes of all objects, and the globals of the modules that define their code."""
        functions = [value for value in self.seen.values() if isinstance(value, types.FunctionType)]
        for cls in self._classes():
            self._enter_class(cls)
            functions += [function for _, function in _functions(cls)]
        for function in functions:
            self._enter_globals(function)

    def _classes(self) -> list[type]:
        """Return the classes of all objects so far that are the model's own code."""
        kinds = dict.fromkeys(type(value) for value in self.seen.values())
        return list(dict.fromkeys(cls for kind in kinds for cls in _own_classes(kind)))  # type: ignore[arg-type]

    def _enter_class(self, cls: type) -> None:
        if id(cls) not in self.seen:
            self.seen[id(cls)] = cls
            self._enter_all(cls.__name__, vars(cls), _public)

    def _enter_globals(self, function: types.FunctionType) -> None:
        names = function.__globals__
        module = str(names.get("__name__", ""))
        if id(names) in self.seen or module.partition(".")[0] in _LIBRARIES | {_TORCH}:
            return
        self.seen[id(names)] = names
        self._enter_all(module, names, _public)
        for value in list(names.values()):
            if isinstance(value, type) and value.__module__ == module:
                self._enter_class(value)

    def _enter_all(self, path: str, value: object, source: Source) -> None:
        prefix, children = f"{path}." if path else "", list(source(value))
        self.glance.entered(value, source, children)
        for name, child, kind in children:
            self.enter(child, prefix + name, kind)

    def _found(self, value: Any, path: str, kind: AttributeKind) -> None:
        while path in self.paths:  # keys 1 and "1" of a dict
            path += "'"
        self.paths.add(path)
        self.leaves.append(attribute(path, kind, value))


def _visit(model: object) -> _Visit:
    visit = _Visit()
    visit.enter(model, "")
    visit.enter_closures()
    return visit


def _bits(array: np.ndarray[Any, Any]) -> tuple[object, ...]:
    return array.dtype, array.shape, array.tobytes()


def _sealed(value: object) -> Sealed | None:
    data = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _Pickler(data).dump(value)
            return Sealed(sha256(data.getvalue()).digest(), re.sub(" at 0x[0-9a-fA-F]+", "", repr(value))[:60])
        except Exception:
            return None


class _Pickler(pickle.Pickler):
    """Writes classes, functions and type variables as their names, where pickle would import their modules to see that
    they are there."""

    def persistent_id(self, value: object) -> str | None:
        if isinstance(value, types.BuiltinFunctionType):
            is_global = isinstance(value.__self__, types.ModuleType | None)
        else:
            is_global = isinstance(value, type | types.FunctionType) or type(value).__module__ == "typing"
        return repr(value) if is_global else None


@cache
def _package(cls: Any) -> str:
    package, _, rest = cls.__module__.partition(".")
    return "" if rest.startswith("distributions") else package


@cache
def _own_classes(cls: Any) -> list[type]:
    """Return a class and its bases as far as they are the model's own code."""
    return [base for base in cls.__mro__ if _package(base) not in _LIBRARIES | {_TORCH}]


def _functions(cls: type) -> Iterator[tuple[str, types.FunctionType]]:
    for name, member in vars(cls).items():
        function = getattr(member, "__func__", getattr(member, "fget", member))
        if isinstance(function, types.FunctionType):
            yield name, function


def _public(names: Mapping[str, object]) -> list[Child]:
    return [(name, value, "attribute") for name, value in list(names.items()) if not name.startswith("__")]
