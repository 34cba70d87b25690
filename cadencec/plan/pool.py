"""Finished tapes by number, each once, with everything that they have in common once in memory.

    tape 0    ops a b c        tape 1    ops a d c        in memory: a, b, c, d, and each view, literal and storage once

A plan has thousands of tapes that differ in a few sizes. What is one object is held once, and what looks at ops by
themselves (the checkers, the writer) looks at it once.
"""

from typing import TypeVar

from cadence_runtime.format.tape import Binding, Op, Operand, Storage, Tape

T = TypeVar("T", bound=Storage | Binding | Operand)


class TapePool:
    """Numbers tapes in the order in which they are first added; equal ones have one number."""

    def __init__(self) -> None:
        self.tapes: list[Tape] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._ops: dict[Op, Op] = {}
        self._parts: dict[object, object] = {}

    def add(self, tape: Tape) -> int:
        """Return the number of a tape."""
        storages = tuple([self._one(storage) for storage in tape.storages])
        inputs, state_in = self._rows(tape.inputs), self._rows(tape.state_in)
        ops = tuple([self._op(op) for op in tape.ops])
        outputs, state_out = self._rows(tape.outputs), self._rows(tape.state_out)
        # What is equal is one object from here on, so the objects tell tapes apart.
        objects = (tuple(map(id, part)) for part in (storages, inputs, state_in, ops, outputs, state_out))
        number = self._numbers.setdefault((tape.stage, tape.draws, *objects), len(self.tapes))
        if number == len(self.tapes):
            self.tapes.append(Tape(tape.stage, storages, inputs, state_in, ops, outputs, state_out, tape.draws))
        return number

    def _rows(self, rows: tuple[Binding, ...]) -> tuple[Binding, ...]:
        return tuple([self._one(Binding(row.name, self._one(row.value))) for row in rows])

    def _op(self, op: Op) -> Op:
        known = self._ops.get(op)
        if known is None:
            args, outs = (tuple([self._operand(operand) for operand in row]) for row in (op.args, op.outs))
            kwargs = tuple([(name, self._operand(operand)) for name, operand in op.kwargs])
            known = Op(op.name, args, kwargs, outs, op.reads, op.writes, op.source, op.draws)
            self._ops[known] = known
        return known

    def _operand(self, operand: Operand) -> Operand:
        return self._one(tuple(map(self._operand, operand)) if isinstance(operand, tuple) else operand)

    def _one(self, part: T) -> T:
        return self._parts.setdefault(part, part)  # type: ignore[return-value]
