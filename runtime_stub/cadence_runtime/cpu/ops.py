"""Which `out=` overloads truly write in place, with bits equal to the allocating op.

Only ops listed here get planned memory. Every entry is proven by a test: no allocation of the result's size happens,
and the bits are equal, for contiguous and for strided operands.
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import torch

from cadence_runtime.cpu.allowed import is_allowed
from cadence_runtime.format.check_tape import views_of
from cadence_runtime.format.tape import Literal, Op, Operand, View

OUT_VARIANTS: dict[str, str] = {
    "aten::_slow_conv2d_forward": "aten::_slow_conv2d_forward.output",
    "aten::abs": "aten::abs.out",
    "aten::add.Tensor": "aten::add.out",
    "aten::addmm": "aten::addmm.out",
    "aten::angle": "aten::angle.out",
    "aten::baddbmm": "aten::baddbmm.out",
    "aten::bmm": "aten::bmm.out",
    "aten::cat": "aten::cat.out",
    "aten::clamp": "aten::clamp.out",
    "aten::clamp_min": "aten::clamp_min.out",
    "aten::cos": "aten::cos.out",
    "aten::div.Tensor": "aten::div.out",
    "aten::exp": "aten::exp.out",
    "aten::gelu": "aten::gelu.out",
    "aten::leaky_relu": "aten::leaky_relu.out",
    "aten::log": "aten::log.out",
    "aten::mean.dim": "aten::mean.out",
    "aten::mm": "aten::mm.out",
    "aten::mul.Tensor": "aten::mul.out",
    "aten::neg": "aten::neg.out",
    "aten::pow.Tensor_Scalar": "aten::pow.Tensor_Scalar_out",
    "aten::reciprocal": "aten::reciprocal.out",
    "aten::reflection_pad1d": "aten::reflection_pad1d.out",
    "aten::rsqrt": "aten::rsqrt.out",
    "aten::sigmoid": "aten::sigmoid.out",
    "aten::silu": "aten::silu.out",
    "aten::sin": "aten::sin.out",
    "aten::sqrt": "aten::sqrt.out",
    "aten::stack": "aten::stack.out",
    "aten::sub.Tensor": "aten::sub.out",
    "aten::sum.dim_IntList": "aten::sum.IntList_out",
    "aten::tanh": "aten::tanh.out",
}
"""The `out=` overload of each op whose result may be planned."""

RANKS = {"bool": 0, "int": 1, "uint": 1, "float": 2, "bfloat": 2, "complex": 3}
"""Kinds of numbers, the narrower first, by the letters that names of dtypes and kinds of literals begin with."""


def writes_in_place(op: Op) -> bool:
    """Return whether the op can write its one result into memory that is there already."""
    return op.name in OUT_VARIANTS and len(op.outs) == 1 and stand_for_tensors(op, numbers(op))


def numbers(op: Op) -> tuple[Literal, ...]:
    """Return the Python numbers that the op takes where its schema has tensors."""
    arguments = zip(op.args, schema_of(op.name).arguments, strict=False)
    return tuple(
        operand
        for operand, argument in arguments
        if isinstance(operand, Literal) and operand.kind in RANKS and isinstance(argument.type, torch._C.TensorType)
    )


def stand_for_tensors(op: Op, literals: Iterable[Literal]) -> bool:
    """Return whether tensors without dims can stand for numbers.

    torch wraps a number so that it never widens a dtype of its own kind or a wider one. A plain tensor without dims
    does the same beside tensors that have dims, and beside one without dims that is of a wider kind, or a bool too.
    Anywhere else the number has to go to the overload that takes a scalar, which writes nothing in place.
    """
    beside = [view for view in op.args if isinstance(view, View)]
    return all(_keeps_its_dtype(view, literal) for view in beside for literal in literals)


def _keeps_its_dtype(view: View, number: Literal) -> bool:
    """Return whether a tensor without dims that stands for a number leaves the view's dtype as it is."""
    mine, other = _rank(view.dtype), _rank(number.kind)
    return mine >= other if view.sizes or view.dtype == "bool" else mine > other


def _rank(name: str) -> int:
    return RANKS[re.split("[0-9]", name, maxsplit=1)[0]]


PLAIN_TYPES = frozenset(
    ["Tensor", "number", "int", "float", "bool", "complex", "Device", "Generator", "str", "NoneType", "Scalar"]
)


@lru_cache(maxsize=1024)
def check_op(name: str) -> str | None:
    """Return why an op may not be part of a plan, or None. Plans come from elsewhere: only ops that compute tensors
    from tensors and numbers run."""
    base = name.partition(".")[0]
    if not base.startswith("aten::"):
        return f"an op of another library, `{base.partition('::')[0]}`"
    try:
        schema = schema_of(name)
    except KeyError:
        return "no op of this torch"
    if not is_allowed(base.removeprefix("aten::")):
        return "an op that reaches beyond its operands"
    strange = sorted({_base(argument.type) for argument in (*schema.arguments, *schema.returns)} - PLAIN_TYPES)
    return f"an operand of type {', '.join(strange)}" if strange else None


@cache
def schema_of(name: str) -> Any:
    """Return torch's schema of an op by name and overload; raises KeyError where there is none."""
    base, _, overload = name.partition(".")
    return {schema.overload_name: schema for schema in torch._C._jit_get_schemas_for_operator(base)}[overload]


def _base(kind: Any) -> str:
    """Return the innermost type of an optional or a list."""
    while isinstance(kind, torch._C.OptionalType | torch._C.ListType):
        kind = kind.getElementType()
    return str(kind)


NUMBERS = frozenset(["bool", "int", "float", "complex"])
LITERALS: dict[str, frozenset[str]] = {
    "number": NUMBERS,
    "int": frozenset(["bool", "int", "dtype", "layout", "memory_format"]),
    "float": frozenset(["bool", "int", "float"]),
    "bool": frozenset(["bool"]),
    "complex": NUMBERS,
    "Device": frozenset(["device"]),
    "Generator": frozenset(["generator"]),
    "str": frozenset(["str"]),
    "Tensor": NUMBERS,
}
"""The kinds of literals that stand for each type of a schema; enums of torch count as ints."""


def operand_fault(op: Op) -> str | None:
    """Return what of an op's operands and results its schema does not take, or None."""
    schema = schema_of(op.name)
    positional = [argument for argument in schema.arguments if not argument.kwarg_only]
    if len(op.args) > len(positional):
        return f"{len(op.args)} operands"
    given = {argument.name: operand for argument, operand in zip(positional, op.args, strict=False)}
    known = {argument.name for argument in schema.arguments}
    wrong = [name for name, _ in op.kwargs if name in given or name not in known]
    if wrong:
        return f"`{wrong[0]}`"
    given |= dict(op.kwargs)
    for argument in schema.arguments:
        if argument.name not in given and not argument.has_default_value():
            return f"no `{argument.name}`"
        if argument.name in given and not _takes(argument.type, given[argument.name]):
            return f"another kind of `{argument.name}`"
        if argument.name in given and _changes(argument) and not _storages(given[argument.name]) <= set(op.writes):
            return f"`{argument.name}`, which it writes to and does not declare"
    if len(op.outs) != len(schema.returns) or not all(map(_makes, schema.returns, op.outs)):
        return "other results"
    return _unfold_fault(op) if op.name == "aten::unfold_backward" else None


def _takes(kind: Any, operand: Operand) -> bool:
    """Return whether an operand can stand for an argument of this type."""
    if isinstance(kind, torch._C.OptionalType):
        return operand in (Literal("none", ""), Literal("generator", "")) or _takes(kind.getElementType(), operand)
    if isinstance(kind, torch._C.ListType):
        items = operand if isinstance(operand, tuple) else (operand,)
        return all(_takes(kind.getElementType(), item) for item in items)
    if isinstance(operand, View):
        return isinstance(kind, torch._C.TensorType)
    return isinstance(operand, Literal) and operand.kind in LITERALS[str(kind)]


def _changes(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def _storages(operand: Operand) -> set[int]:
    return {view.storage for view in views_of([operand])}


def _makes(returned: Any, out: Operand) -> bool:
    """Return whether a result can stand for what a schema returns; an undefined tensor is none."""
    if isinstance(out, tuple):
        return isinstance(returned.type, torch._C.ListType) and not any(isinstance(item, tuple) for item in out)
    return isinstance(out, Literal) or isinstance(returned.type, torch._C.TensorType)


def _unfold_fault(op: Op) -> str | None:
    """torch does not check this one: the windows have to be those that unfolding the result would give."""
    windows, sizes, *rest = op.args
    numbers = [int(item.text) for item in (*sizes, *rest) if isinstance(item, Literal) and item.kind == "int"]  # type: ignore[misc]
    if len(op.args) != 5 or len(numbers) != len(sizes) + 3 or not isinstance(windows, View):  # type: ignore[arg-type]
        return "other operands than windows, sizes, dim, size and step"
    *whole, dim, size, step = numbers
    if not 0 <= dim < len(whole) or step < 1 or not 0 < size <= whole[dim]:
        return f"windows of {size} every {step} along dim {dim} of {whole}"
    wanted = [*whole[:dim], (whole[dim] - size) // step + 1, *whole[dim + 1 :], size]
    return None if list(windows.sizes) == wanted else f"windows {list(windows.sizes)} of {whole}"
