"""Fills: `zeros`, `ones` and `full` become a fill of memory that is there, `rand` and `randn` a draw into it; and so
does a copy to the device of what was filled on the host.

torch computes the former by the latter, so the bits are the same; what is gained is that a player can plan the memory,
and that `zeros_like(x)` no longer keeps `x` alive for its shape.
"""

import math
from dataclasses import replace

from cadence_runtime.format.tape import ITEM_BYTES, Literal, Op, Operand, Tape, View
from cadencec.passes.program import Context, Program
from cadencec.trace.effects import base_name
from cadencec.trace.operands import float_text

_ONE = Literal("int", "1")
_UNIT = (Literal("float", float_text(0.0)), Literal("float", float_text(1.0)))

_FILLS: dict[str, tuple[str, tuple[Operand, ...]]] = {
    "zeros": ("aten::zero_", ()),
    "zeros_like": ("aten::zero_", ()),
    "new_zeros": ("aten::zero_", ()),
    "ones": ("aten::fill_.Scalar", (_ONE,)),
    "ones_like": ("aten::fill_.Scalar", (_ONE,)),
    "new_ones": ("aten::fill_.Scalar", (_ONE,)),
    "rand": ("aten::uniform_", _UNIT),
    "rand_like": ("aten::uniform_", _UNIT),
    "randn": ("aten::normal_", _UNIT),
    "randn_like": ("aten::normal_", _UNIT),
}
_SAME = ("aten::zero_", "aten::fill_.Scalar")
"""Fills with one value."""
_VALUE_AT = {"full": 1, "full_like": 1, "new_full": 2}
"""Position of the value among the arguments."""


def run(program: Program, context: Context) -> Program:
    """Return the program with factories written as fills."""
    filled, ops = _Filled(program.tape), []
    for op in map(_as_fill, program.tape.ops):
        ops.append(filled.copied(op))
        filled.note(ops[-1])
    return replace(program, tape=replace(program.tape, ops=tuple(ops)))


class _Filled:
    """What the storages of the host hold that were filled and not written since: the fill."""

    def __init__(self, tape: Tape) -> None:
        self.storages = tape.storages
        self.fills: dict[int, Op] = {}

    def note(self, op: Op) -> None:
        """Look at the next op."""
        for index in op.writes:
            self.fills.pop(index, None)
        out = op.args[0] if op.args else None
        if op.name in _SAME and isinstance(out, View) and self._is_whole(out):
            self.fills[out.storage] = op

    def copied(self, op: Op) -> Op:
        """Return the fill that a copy of something filled amounts to; any other op as it is."""
        if base_name(op.name) != "_to_copy" or not isinstance(op.args[0], View):
            return op
        source, out = op.args[0], op.outs[0]
        fill = self.fills.get(source.storage)
        if fill is None or not isinstance(out, View) or (out.dtype, out.sizes) != (source.dtype, source.sizes):
            return op
        return replace(fill, args=(out, *fill.args[1:]), outs=(out,), writes=(out.storage,), source=op.source)

    def _is_whole(self, view: View) -> bool:
        storage = self.storages[view.storage]
        return (
            storage.host
            and view.span() == (0, storage.size_bytes)
            and math.prod(view.sizes) * ITEM_BYTES[view.dtype] == storage.size_bytes
        )


def _as_fill(op: Op) -> Op:
    base = base_name(op.name) if op.name.startswith("aten::") else ""
    if base in _FILLS:
        name, rest = _FILLS[base]
    elif base in _VALUE_AT:
        position = _VALUE_AT[base]
        value = op.args[position] if len(op.args) > position else dict(op.kwargs)["fill_value"]
        name, rest = "aten::fill_.Scalar", (value,)
    else:
        return op
    out = op.outs[0]
    if not isinstance(out, View) or out.storage not in op.writes:
        return op
    return replace(op, name=name, args=(out, *rest), kwargs=(), reads=(), writes=(out.storage,))
