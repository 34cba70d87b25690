"""What outlives a step without being declared: buffers written in place, attributes that change.

A step may write a buffer if it does so before every read, byte by byte: that is scratch. It may rebind an attribute to
a constant, or keep a helper that it makes on first use, if a second run neither changes more nor does anything else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadence_runtime.format.tape import Binding, Op
from cadencec.trace.attributes import Attribute, Sealed, Snapshot
from cadencec.trace.bits import same_bits
from cadencec.trace.effects import accesses_of
from cadencec.trace.operands import views_of
from cadencec.trace.ranges import ByteSet
from cadencec.trace.storages import StorageTable


@dataclass(frozen=True, slots=True)
class Change:
    """An attribute that a step changed; `before` or `after` is None where there was none."""

    path: str
    before: Attribute | None
    after: Attribute | None

    def text(self, which: str) -> str:
        """Return the value before or after, short enough for a message."""
        attribute = self.before if which == "before" else self.after
        if attribute is None:
            return "nothing"
        value = attribute.value
        if isinstance(value, Tensor | np.ndarray):
            return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
        if isinstance(value, Sealed):
            return value.text
        return f"{type(value).__name__} {value!r}"[:80]


def changes(one: Snapshot, other: Snapshot) -> list[Change]:
    """Return what differs, in the order of the model. A tensor in place of another one is a change."""
    before, after = one.attributes, other.attributes
    if before.keys() == after.keys():
        pairs = zip(before.values(), map(after.__getitem__, before), strict=True)
        return [Change(old.path, old, new) for old, new in pairs if not _is_same(old, new)]
    paths = dict.fromkeys((*before, *after))
    found = (Change(path, before.get(path), after.get(path)) for path in paths)
    return [change for change in found if not _is_same(change.before, change.after)]


def rebound(
    found: Sequence[Change], table: StorageTable, declared: set[int], ops: Sequence[Op]
) -> tuple[list[TraceError], list[Change]]:
    """Return an error for each attribute that now holds a changing tensor which is no new leaf, and the changes that
    remain: those to constants. An attribute rebound to equal bytes has not changed."""
    errors, constant = [], []
    for change in found:
        value = change.after.value if change.after is not None else None
        if not isinstance(value, Tensor):
            constant.append(change)
            continue
        index = table.find(value)
        if index is not None and table.is_constant(index):
            if not _has_same_bits(change):
                constant.append(change)
        elif index is None or index not in declared:
            made = next((op.source for op in ops if index in op.writes), "")
            errors.append(_rebound_error(change, made))
    return errors, constant


def overwritten(
    ops: Sequence[Op], bindings: Iterable[Binding], table: StorageTable
) -> tuple[list[TraceError], list[int]]:
    """Return an error for each lasting storage that is read before it is written, and those that are but scratch."""
    written = {index: ByteSet() for op in ops for index in op.writes if index in table.lasting}
    if not written:
        return [], []
    errors: dict[int, TraceError] = {}
    for op in ops:
        touched = accesses_of(op)
        for view in (*touched.read, *touched.changed):
            seen = written.get(view.storage)
            if seen is not None and not seen.covers(view):
                errors.setdefault(view.storage, _in_place_error(table, view.storage, ops))
        for view in touched.overwritten:
            if view.storage in written:
                written[view.storage].add(view)
    for view in views_of(binding.value for binding in bindings):
        if view.storage in written and not written[view.storage].covers(view):
            errors.setdefault(view.storage, _in_place_error(table, view.storage, ops))
    return list(errors.values()), [index for index in written if index not in errors]


def unsettled(first: Sequence[Change], again: Sequence[Change], differs: str | None) -> list[TraceError]:
    """Return the errors of a stage that was run twice: an attribute changed again, or it did something else."""
    errors = []
    for change in again:
        start = next((old.text("before") for old in first if old.path == change.path), change.text("before"))
        errors.append(
            TraceError(
                "CAD3203",
                f"undeclared state: attribute `{change.path}` changes on every run",
                expected="an attribute that stays, or state that is declared as a leaf",
                got=f"{start} -> {change.text('before')} -> {change.text('after')}",
                hint="return it in the state: a tensor, or an int that a counter of the spec declares and bounds",
            )
        )
    if differs is not None and not errors:
        errors = [
            TraceError(
                "CAD3204",
                f"undeclared state: attribute `{change.path}` makes the next run go another way",
                expected="the same ops and the same bits from a second run on the same input and state",
                got=f"{change.text('before')} -> {change.text('after')}; {differs}",
                hint="return it in the state, or set it when the model is built",
            )
            for change in first
        ]
    return errors


def _in_place_error(table: StorageTable, index: int, ops: Sequence[Op]) -> TraceError:
    writer = next(op for op in ops if index in op.writes)
    return TraceError(
        "CAD3201",
        f"undeclared state: `{table.lasting[index]}` is read before the step writes it, in place by `{writer.name}`",
        expected="a tensor that no step changes, or one that each step writes before it reads it",
        got=f"{table.sizes[index]} bytes that outlive the step",
        at=writer.source or None,
        hint="declare it as a leaf of the state: return it from `init_state` and `step`",
    )


def _rebound_error(change: Change, made: str) -> TraceError:
    return TraceError(
        "CAD3202",
        f"undeclared state: attribute `{change.path}` is bound to a tensor that outlives the step",
        expected="a constant, or a tensor that the step returns in its state",
        got=f"{change.text('before')} -> {change.text('after')}, which changes from run to run",
        at=made or None,
        hint="declare it as a leaf of the state: return it from `init_state` and `step`",
    )


def _is_same(before: Attribute | None, after: Attribute | None) -> bool:
    if before is None or after is None:
        return before is after
    left, right = before.value, after.value
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return before.place == after.place and (left is right or bool(before.place))
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    return left is right or (type(left) is type(right) and repr(left) == repr(right))


def _has_same_bits(change: Change) -> bool:
    before, after = change.before, change.after
    if before is None or after is None or not before.place:
        return False
    return same_bits(before.tensor(), after.value)
