"""Fills: `zeros`, `ones` and `full` become a fill of memory that is there, `rand` and `randn` a draw into it.

torch computes the former by the latter, so the bits are the same; what is gained is that a player can plan the memory,
and that `zeros_like(x)` no longer keeps `x` alive for its shape.
"""

from dataclasses import replace

from cadence_runtime.format.tape import Literal, Op, Operand, View
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
_VALUE_AT = {"full": 1, "full_like": 1, "new_full": 2}
"""Position of the value among the arguments."""


def run(program: Program, context: Context) -> Program:
    """Return the program with factories written as fills."""
    tape = program.tape
    return replace(program, tape=replace(tape, ops=tuple(map(_as_fill, tape.ops))))


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
