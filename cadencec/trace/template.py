"""What one recording teaches the next of the same ops: at each place the op, its operands, and what they touch.

    place   op             as it was recorded        at a longer key
    6       aten::slice    1[0:4] -> 1[2:4]          not looked at
    7       aten::cat      1[2:4], 3[0:1] -> 5       1[2:8], 3[0:1] -> 5     the same storages: only sizes are new
    8       aten::tanh     4 -> 6                    4 -> 6                  the same in all: the op itself is taken

A later recording *follows* a place where the same overload comes with operands on the same storages and with the same
switches. Sizes, strides, offsets and numbers are looked at every time. What an op reads and writes depends on nothing
else, so it is not derived again. An op that only makes a view is passed over: what becomes of the view is seen where
another op takes it. A place that fits in anything else is recorded like one never seen, and so is every op that hands
data to the host, draws, or decides by a switch. But for the views that it leaves out, the tape is the same either way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import torch
from torch import Tensor

from cadence_runtime.format.tape import Literal, Op, Operand, View
from cadencec.trace.effects import Accesses, Effects
from cadencec.trace.operands import encode_literal
from cadencec.trace.storages import StorageTable


class DepartedError(Exception):
    """Operands do not fit the template."""


@dataclass(frozen=True, slots=True)
class Known:
    """A literal with the Python value that it came from."""

    literal: Literal
    value: object


@dataclass(frozen=True, slots=True)
class Nest:
    """A list of operands; `ints` is the Python list where it holds nothing but ints."""

    items: tuple["Pattern", ...]
    operands: tuple[Operand, ...]
    ints: list[int] | None


Pattern = View | Known | Nest


@dataclass(frozen=True, slots=True)
class Place:
    """One call of an op. `changes` are the storages that it writes and that were there before; `is_view` says that it
    did nothing but make a view of what was known."""

    func: Any
    effects: Effects
    op: Op
    args: Nest
    kwargs: Nest
    changes: tuple[int, ...]
    is_view: bool
    is_followed: bool


Template = tuple[Place | None, ...]
"""The places of a recording in order; None for calls that are no ops of the tape."""


def place_of(
    func: Any,
    effects: Effects,
    op: Op,
    values: Sequence[Any],
    named: Mapping[str, Any],
    touched: Accesses,
    *,
    met_any: bool,
) -> Place:
    """Return the place of an op that was just recorded from these Python operands, among which it `met_any` storages
    for the first time."""
    decides = effects.seeded or effects.host_read or effects.normalises or effects.dynamic_shape or effects.asserts
    resizes = any(whole and name in named for _, name, whole in effects.mutated)
    kwargs = _nest([named[name] for name, _ in op.kwargs], tuple(operand for _, operand in op.kwargs))
    changes = tuple({view.storage: None for view in (*touched.changed, *touched.overwritten)})
    is_followed = not decides and not resizes
    is_view = is_followed and not met_any and not op.reads and not op.writes and not effects.reserves
    return Place(func, effects, op, _nest(values, op.args), kwargs, changes, is_view, is_followed)


def _nest(values: Sequence[Any], operands: tuple[Operand, ...]) -> Nest:
    ints = list(values) if all(type(value) is int for value in values) else None
    return Nest(tuple(map(_pattern, values, operands)), operands, ints)


def _pattern(value: Any, operand: Operand) -> Pattern:
    if isinstance(operand, View):
        return operand
    return Known(operand, value) if isinstance(operand, Literal) else _nest(value, operand)


def follow(values: Sequence[Any], nest: Nest, table: StorageTable) -> tuple[Operand, ...]:
    """Return operands as they are now, those of the template where nothing differs. Raises DepartedError."""
    if nest.ints is not None and nest.ints == values:
        return nest.operands
    if len(values) != len(nest.items):
        raise DepartedError
    found: list[Operand] = []
    for value, pattern in zip(values, nest.items, strict=True):
        if isinstance(pattern, View):
            now = table.again(value, pattern) if isinstance(value, Tensor) else None
            if now is None:
                raise DepartedError
            found.append(now)
        elif isinstance(pattern, Known):
            found.append(pattern.literal if value is pattern.value else _literal(value, pattern, table.target))
        elif isinstance(value, list | tuple):
            found.append(follow(value, pattern, table))
        else:
            raise DepartedError
    return nest.operands if all(map(is_, found, nest.operands)) else tuple(found)


def follow_named(values: Mapping[str, Any], place: Place, table: StorageTable) -> tuple[tuple[str, Operand], ...]:
    """Return keyword operands as they are now, those of the template where nothing differs. Raises DepartedError."""
    names = [name for name, _ in place.op.kwargs]
    if len(values) != len(names) or not all(name in values for name in names):
        raise DepartedError
    found = follow([values[name] for name in names], place.kwargs, table)
    return place.op.kwargs if found is place.kwargs.operands else tuple(zip(names, found, strict=True))


def _literal(value: Any, known: Known, target: torch.device) -> Literal:
    """Return a number as text; a switch must be what it was. Zeros have signs, and NaNs their own bits."""
    kind = type(value)
    if kind is not type(known.value) or (kind not in (int, float) and value != known.value):
        raise DepartedError
    if kind is not float and value == known.value:
        return known.literal
    now = encode_literal(value, target)
    return known.literal if now == known.literal else now
