"""A glance at a model that was walked: whether it still holds what it held, in a fifth of the time of a walk.

A walk enters containers and ends at leaves. Where every container that it entered has the very same objects inside,
and every leaf that can change in place is as it was, another walk would find the same again. Whatever else is met makes
the answer no, and costs a walk.
"""

import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import is_
from typing import Any

from torch import nn
from torch.jit import ScriptModule

from cadencec.trace.children import MAX_ENTRIES, Child

Source = Callable[[Any], Iterable[Child]]
"""Returns what is inside of an object."""

State = Callable[[Any], object]
"""Returns what can change of an object that stays in its place, to be compared."""


class Group:
    """Containers of one kind, and the objects that `read` found in each of them."""

    def __init__(self, read: Callable[[Any], Iterable[object]]) -> None:
        self.read = read
        self.containers: list[Any] = []
        self.lengths: list[int] = []
        self.found: list[object] = []

    def add(self, container: Any) -> None:
        """Note what is in a container now."""
        self.containers.append(container)
        self.lengths.append(len(container))
        self.found += self.read(container)

    def is_same(self) -> bool:
        """Return whether all containers have the same objects in them, in the same order."""
        inside = chain.from_iterable(map(self.read, self.containers))
        return [*map(len, self.containers)] == self.lengths and all(map(is_, inside, self.found))


class Glance:
    """What a walk saw."""

    def __init__(self) -> None:
        self._entries, self._keys = Group(dict.values), Group(iter)
        self._names, self._members = Group(iter), Group(types.MappingProxyType.values)
        self._elements = Group(iter)
        self._others: list[tuple[Source, object, Sequence[Child]]] = []
        self._leaves: list[tuple[State, object, object]] = []
        self._functions: list[tuple[types.FunctionType, object]] = []
        self._objects: list[object] = []
        self._kinds: list[type] = []

    def entered(self, value: Any, source: Source, children: Sequence[Child]) -> None:
        """Note an object whose inside was walked, and what `source` found there."""
        self._objects.append(value)
        self._kinds.append(type(value))
        if isinstance(value, tuple):
            return
        if isinstance(value, types.FunctionType) and value.__closure__ is None and value.__kwdefaults__ is None:
            self._functions.append((value, value.__defaults__))
        elif isinstance(value, nn.Module) and not isinstance(value, ScriptModule):
            hooks = value._forward_pre_hooks, value._forward_hooks
            for held in (vars(value), value._parameters, value._buffers, value._modules, *hooks):
                self._mapping(held)
        elif isinstance(value, dict) and len(value) <= MAX_ENTRIES:
            self._mapping(value)
        elif isinstance(value, types.MappingProxyType):
            self._names.add(value)
            self._members.add(value)
        elif isinstance(value, list | deque) and len(value) <= MAX_ENTRIES:
            self._elements.add(value)
        else:
            self._others.append((source, value, children))

    def met(self, value: object, state: State) -> None:
        """Note a leaf that may change in place."""
        self._leaves.append((state, value, state(value)))

    def is_same(self) -> bool:
        """Return whether a walk would find what it found before; no where that is not certain."""
        groups = (self._entries, self._keys, self._names, self._members, self._elements)
        return (
            [*map(type, self._objects)] == self._kinds
            and all(f.__defaults__ is defaults and f.__kwdefaults__ is None for f, defaults in self._functions)
            and all(group.is_same() for group in groups)
            and all(_is_same_inside(list(source(value)), children) for source, value, children in self._others)
            and all(state(value) == before for state, value, before in self._leaves)
        )

    def _mapping(self, value: dict[Any, Any]) -> None:
        self._keys.add(value)
        self._entries.add(value)


def _is_same_inside(now: Sequence[Child], before: Sequence[Child]) -> bool:
    """Return whether two lists of children are one; texts and ints may have been made anew."""
    return len(now) == len(before) and all(
        old[0] == new[0] and (old[1] is new[1] or (type(old[1]) is type(new[1]) in (str, int) and old[1] == new[1]))
        for new, old in zip(now, before, strict=True)
    )
