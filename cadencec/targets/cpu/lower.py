"""Which results of a tape get planned memory, and where.

A scratch storage is planned when the op that makes it has an `out=` overload that truly writes in place, or when it is
only filled; and when its bytes are seen under several dtypes (a complex result as real numbers), since only memory of
the player's own can be, which then takes a copy. Everything else (convolutions, embeddings, ...) is allocated by torch
at each replay; those bytes are counted and reported.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cadence_runtime.cpu.ops import check_op, writes_in_place
from cadence_runtime.errors import TargetError
from cadence_runtime.format.tape import Op, Tape, View
from cadencec.arena.lifetimes import buffers
from cadencec.arena.planner import Packing, plan


@dataclass(frozen=True, slots=True)
class Lowered:
    """A tape's scratch: (storage, byte offset) of what is planned, the packing behind it, and the bytes that torch
    allocates at each replay."""

    scratch: tuple[tuple[int, int], ...]
    packing: Packing
    unplanned_bytes: int


NOT_LOWERED = Lowered((), Packing((), 0, 0, "none"), 0)
"""Of a tape that another target captures."""


def lower(tape: Tape) -> Lowered:
    """Plan the scratch of a tape. Raises TargetError CAD4001 for an op that the CPU player does not run."""
    for op in tape.ops:
        _check(op)
    planned = planned_storages(tape)
    packing = plan(buffers(tape, planned))
    scratch = {index: s.size_bytes for index, s in enumerate(tape.storages) if s.kind == "scratch"}
    unplanned = scratch.keys() - set(planned)
    return Lowered(
        tuple(zip(planned, packing.offsets, strict=True)), packing, sum(scratch[index] for index in unplanned)
    )


def planned_storages(tape: Tape) -> list[int]:
    """Return the scratch storages that get planned memory, in order."""
    makers: dict[int, tuple[Op, bool]] = {}
    for op in tape.ops:
        fresh = set(_fresh(op))
        for index in op.writes:
            makers.setdefault(index, (op, index in fresh))
    mixed = _seen_as_several(tape)
    return [
        index
        for index, storage in enumerate(tape.storages)
        if storage.kind == "scratch" and index in makers and (index in mixed or _writes_in_place(*makers[index]))
    ]


def _seen_as_several(tape: Tape) -> set[int]:
    """Return the storages that are seen under more than one dtype."""
    dtypes: dict[int, set[str]] = {}
    operands = [operand for op in tape.ops for operand in (*op.args, *(value for _, value in op.kwargs), *op.outs)]
    bound = [binding.value for binding in (*tape.outputs, *tape.state_out)]
    for view in _views(*operands, *bound):
        dtypes.setdefault(view.storage, set()).add(view.dtype)
    return {index for index, found in dtypes.items() if len(found) > 1}


def _writes_in_place(op: Op, fresh: bool) -> bool:
    return not fresh or writes_in_place(op)


def _fresh(op: Op) -> Iterator[int]:
    """Yield the storages that the op makes rather than writes into."""
    operands = {view.storage for view in _views(*op.args, *(value for _, value in op.kwargs))}
    return (view.storage for view in _views(*op.outs) if view.storage not in operands)


def _views(*operands: object) -> Iterator[View]:
    for operand in operands:
        if isinstance(operand, View):
            yield operand
        elif isinstance(operand, tuple):
            yield from _views(*operand)


def _check(op: Op) -> None:
    reason = check_op(op.name)
    if reason is not None:
        raise TargetError(
            "CAD4001",
            f"`{op.name}` cannot be part of a CPU plan",
            expected="an aten op on plain tensors and numbers",
            got=reason,
            at=op.source or None,
            hint="keep the op outside of the stage, and pass its result as an input",
        )
