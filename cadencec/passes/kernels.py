"""Kernels: calls what torch would end up calling, where that is one kernel with an `out=` overload.

torch decides at each call which convolution to run; on the CPU, for shapes that a tape fixes, the decision is always
the same. The kernel called directly gives the same bits, saves the way to it, and can write into planned memory:

    aten::convolution(x [1, 64, 2], w, ...)   ->   aten::_slow_conv2d_forward(x [1, 64, 1, 2], w [.., .., 1, 3], ...)
    aten::relu(x)                             ->   aten::clamp_min(x, 0)
"""

from dataclasses import replace

import torch

from cadence_runtime.format.tape import Literal, Op, Operand, View
from cadencec.passes.program import Context, Program
from cadencec.trace.operands import DTYPES

ZERO = Literal("int", "0")
FALSE = Literal("bool", "false")


def run(program: Program, context: Context) -> Program:
    """Return the program with kernels called directly; a tape for another device is left alone."""
    if context.device.type != "cpu":
        return program
    tape = program.tape
    return replace(program, tape=replace(tape, ops=tuple(map(_direct, tape.ops))))


def _direct(op: Op) -> Op:
    if op.name == "aten::relu":
        return replace(op, name="aten::clamp_min", args=(op.args[0], ZERO))
    return _direct_convolution(op) if op.name == "aten::convolution" else op


def _direct_convolution(op: Op) -> Op:
    """Return a one-dimensional convolution that torch runs as `_slow_conv2d_forward` as a call of that."""
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = op.args
    out = op.outs[0]
    tensors = (x, weight, out)
    if not all(isinstance(view, View) and len(view.sizes) == 3 and _contiguous(view) for view in tensors):
        return op
    numbers = [_ints(stride), _ints(padding), _ints(dilation), transposed == Literal("bool", "true")]
    meta = (_meta(x), _meta(weight), _meta(bias))
    backend = torch._C._select_conv_backend(*meta, *numbers, _ints(output_padding), *_ints((groups,)))
    if backend != torch._C._ConvBackend.Slow2d or _ints(dilation) != [1]:  # type: ignore[attr-defined]
        return op
    kernel = (_int(1), _int(weight.sizes[2]))  # type: ignore[union-attr]
    args = (_wide(x), _wide(weight), kernel, bias, (_int(1), *stride), (ZERO, *padding))  # type: ignore[misc]
    return replace(op, name="aten::_slow_conv2d_forward", args=args, outs=(_wide(out),))


def _wide(operand: Operand) -> View:
    """Return [a, b, c] as [a, 1, b, c] would stand in memory: a dimension of one row before the last."""
    assert isinstance(operand, View)  # noqa: S101 - checked by the caller; narrows the type
    a, b, c = operand.sizes
    return replace(operand, sizes=(a, b, 1, c), strides=(b * c, c, c, 1))


def _contiguous(view: View) -> bool:
    """Whether a view of three dims is contiguous, and torch takes it for that. By the strides of dims of size 1 torch
    tells [1, 4, 1] from channels that lie last, which take another way to other bits; only the first dim's are free."""
    _, b, c = view.sizes
    return view.strides[1:] == (c, 1) and (view.sizes[0] == 1 or view.strides[0] == b * c)


def _meta(operand: Operand) -> torch.Tensor | None:
    """Return an operand without its bytes; torch decides by sizes, dtype and device."""
    if not isinstance(operand, View):
        return None
    return torch.empty_strided(operand.sizes, operand.strides, dtype=DTYPES[operand.dtype])


def _ints(operands: Operand) -> list[int]:
    assert isinstance(operands, tuple)  # noqa: S101 - the schema's own type
    return [int(item.text) for item in operands if isinstance(item, Literal)]


def _int(value: int) -> Literal:
    return Literal("int", str(value))
