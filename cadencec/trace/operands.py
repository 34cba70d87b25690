"""Operands of a tape: literals as exact text, ops by name, and the walk over nested operands.

1.5 -> float `3ff8000000000000`      torch.float32 -> dtype `float32`      device("cuda:0") -> device `target`
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import torch

from cadence_runtime.cpu import literals
from cadence_runtime.errors import TraceError
from cadence_runtime.format.tape import Literal, Operand, View

DTYPES = literals.DTYPES
float_value = literals.double
decode_literal = literals.decode

DTYPE_NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}

NONE = Literal("none", "")
TARGET, HOST = "target", "cpu"


def float_text(value: float) -> str:
    """Return the 16 hex digits of the IEEE double, most significant first; NaN payloads survive."""
    return struct.pack(">d", value).hex()


def encode_literal(value: object, target: torch.device) -> Literal:
    """Return a Python operand as text; `target` is the traced device. Raises TraceError CAD3001 for other types."""
    match value:
        case None:
            return NONE
        case bool():
            return Literal("bool", "true" if value else "false")
        case int():
            return Literal("int", str(value))
        case float():
            return Literal("float", float_text(value))
        case complex():
            return Literal("complex", f"{float_text(value.real)},{float_text(value.imag)}")
        case str():
            return Literal("str", value)
        case torch.dtype():
            return Literal("dtype", str(value).removeprefix("torch."))
        case torch.device():
            return Literal("device", device_text(value, target))
        case torch.layout():
            return Literal("layout", str(value).removeprefix("torch."))
        case torch.memory_format():
            return Literal("memory_format", str(value).removeprefix("torch."))
        case torch.Generator():
            return Literal("generator", "")
    raise TraceError(
        "CAD3001",
        "an op takes an operand that a tape cannot hold",
        expected="a tensor, number, string, dtype, device, layout or memory format",
        got=f"`{type(value).__name__}`",
    )


def device_text(device: torch.device, target: torch.device) -> str:
    """Return `target` for the traced device and `cpu` for the host; raises TraceError CAD3002 for any third device."""
    if device.type == target.type and device.index in (None, target.index, 0 if target.index is None else target.index):
        return TARGET
    if device.type == "cpu":
        return HOST
    raise TraceError(
        "CAD3002",
        "an op runs on a device that is not traced",
        expected=f"`{target}`, or `cpu` for host tensors",
        got=f"`{device}`",
        hint="keep the whole stage on one device",
    )


@cache
def resolve(name: str) -> torch._ops.OpOverload:
    """Return torch's op of a schema name and overload (`aten::add.Tensor`, `aten::relu`)."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")  # type: ignore[no-any-return]


def views_of(operands: Iterable[Operand]) -> Iterator[View]:
    """Yield every view among nested operands, in order."""
    for operand in operands:
        if isinstance(operand, View):
            yield operand
        elif isinstance(operand, tuple):
            yield from views_of(operand)


def map_views(operand: Operand, change: Callable[[View], View]) -> Operand:
    """Return a nested operand with each view changed."""
    if isinstance(operand, View):
        return change(operand)
    return tuple(map_views(item, change) for item in operand) if isinstance(operand, tuple) else operand


def on_storage(view: View, storage: int) -> View:
    """Return the view on another storage; much faster than `dataclasses.replace`."""
    if storage == view.storage:
        return view
    return View(storage, view.dtype, view.sizes, view.strides, view.offset, view.conj, view.neg)
