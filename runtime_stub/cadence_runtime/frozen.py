"""Frozen, slotted data classes that cost a process next to nothing to define.

`dataclasses` writes and compiles six methods for each class, a third of a millisecond, and a process that loads a plan
defines seventy classes before it reads a byte. Here they share what one does like another. To `dataclasses.fields`,
`replace` and `asdict` they are dataclasses.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")


@overload
def frozen(cls: type[T]) -> type[T]: ...
@overload
def frozen(*, compared: tuple[str, ...]) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True)
def frozen(cls: type[T] | None = None, *, compared: tuple[str, ...] = ()) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class what `dataclass(frozen=True, slots=True)` makes of it, where no base has fields and no field a
    factory. Objects are told apart, and shown, by the fields `compared`; by all, if none are named."""
    return _made(cls, compared) if cls is not None else lambda made: _made(made, compared)


def _made(cls: type[T], compared: tuple[str, ...]) -> type[T]:
    names: tuple[str, ...] = tuple(cls.__annotations__)
    own = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__")}
    defaults = {name: own.pop(name) for name in names if name in own}
    given = {"__slots__": names, "__match_args__": names, "__dataclass_fields__": _Fields(defaults)}
    space = _methods(names, compared or names) | own | given
    made: Any = type(cls)(cls.__name__, cls.__bases__, space)  # type: ignore[misc]
    made.__init__ = _initializer(made, names, defaults)
    return cast(type[T], made)


def _initializer(made: type, names: tuple[str, ...], defaults: Mapping[str, Any]) -> Callable[..., None]:
    setters: Sequence[Callable[[Any, Any], None]] = [made.__dict__[name].__set__ for name in names]
    count, after = len(names), getattr(made, "__post_init__", None)

    last = tuple(defaults.values())

    def __init__(self: Any, *values: Any, **named: Any) -> None:  # noqa: N807
        if named or len(values) != count:
            by_position = not named and 0 < count - len(values) <= len(last)
            values += last[len(values) - count :] if by_position else _rest(made, names, defaults, values, named)
        for assign, value in zip(setters, values, strict=True):
            assign(self, value)
        if after is not None:
            after(self)

    return __init__


def _rest(
    made: type, names: tuple[str, ...], defaults: Mapping[str, Any], values: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return the values of the fields that were not given by position."""
    rest = names[len(values) :]
    wrong = [name for name in rest if name not in named and name not in defaults]
    wrong += [name for name in named if name not in rest]
    if wrong or len(values) > len(names):
        got = f"{len(values)} values and {', '.join(named) or 'no names'}"
        raise TypeError(f"{made.__qualname__} has the fields {', '.join(names)}, and got {got}")
    return tuple([named[name] if name in named else defaults[name] for name in rest])


def _methods(names: tuple[str, ...], compared: tuple[str, ...]) -> dict[str, Any]:
    key = attrgetter(*compared)

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(key(self))

    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in compared)})"

    def __reduce__(self: Any) -> tuple[Any, ...]:  # noqa: N807
        return type(self), tuple(getattr(self, name) for name in names)

    shared = {"__setattr__": _refuse, "__delattr__": _refuse}
    return {"__eq__": __eq__, "__hash__": __hash__, "__repr__": __repr__, "__reduce__": __reduce__, **shared}


def _refuse(self: object, name: str, *value: object) -> None:
    raise AttributeError(f"{type(self).__qualname__} is frozen: `{name}` stays as it is")


class _Fields:
    """What `dataclasses` asks a class for, made when it first asks."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self._defaults = defaults
        self._found: Mapping[str, Any] | None = None

    def __get__(self, instance: object, owner: type) -> Mapping[str, Any]:
        if self._found is None:
            from dataclasses import dataclass

            like = type(owner.__name__, (), {"__annotations__": owner.__annotations__, **self._defaults})
            self._found = dataclass(like).__dataclass_fields__  # type: ignore[attr-defined]
        return self._found
