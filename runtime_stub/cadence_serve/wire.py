"""Messages on the wire: a JSON object, and behind it the bytes of the tensors that it names.

    text       {"type": "open", "seed": 7}
    binary     4 bytes: size of the object, little-endian | the object | the tensors' bytes, in their order, no gaps

A tensor is `{"name": "x", "dtype": "float32", "shape": [1, 512]}`, its bytes little-endian in C order. Reading is
strict and never allocates more than the message is long.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cadence_runtime.errors import CadenceError, SessionError

Array = NDArray[np.generic]

PREFIX_BYTES = 4
MAX_HEADER_BYTES = 1 << 16
MAX_DIMS = 8
DTYPES = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
RESERVED = frozenset(["borrow", "deadline_s"])
"""Names that a push has for itself."""


@dataclass(frozen=True, slots=True)
class Message:
    """`fields` is the object without its tensors."""

    fields: Mapping[str, Any]
    tensors: Mapping[str, Array] = field(default_factory=dict)


def encode(fields: Mapping[str, Any], tensors: Mapping[str, Array] | None = None) -> str | bytes:
    """Return a message as text, or as bytes where there are tensors. Raises SessionError CAD7081 for a dtype that has
    no place on the wire."""
    if not tensors:
        return json.dumps(fields)
    rows, parts = [], []
    for name, array in tensors.items():
        if array.dtype.name not in DTYPES:
            expected, got = f"one of {', '.join(DTYPES)}", array.dtype.name
            raise SessionError("CAD7081", f"output `{name}` cannot be sent", expected=expected, got=got)
        rows.append({"name": name, "dtype": array.dtype.name, "shape": list(array.shape)})
        parts.append(np.ascontiguousarray(array, DTYPES[array.dtype.name]).tobytes())
    header = json.dumps({**fields, "tensors": rows}).encode()
    return b"".join([len(header).to_bytes(PREFIX_BYTES, "little"), header, *parts])


def decode(message: str | bytes) -> Message:
    """Return a message. Raises SessionError CAD7071 for one that is none."""
    if isinstance(message, str):
        fields = _object(message.encode())
        _check(not fields.pop("tensors", None), "tensors in a binary message", "tensors in a text message")
        return Message(fields)
    size = int.from_bytes(message[:PREFIX_BYTES], "little")
    body = memoryview(message)[PREFIX_BYTES:]
    _check(len(message) >= PREFIX_BYTES, f"{PREFIX_BYTES} bytes of size", f"{len(message)} bytes")
    _check(size <= min(len(body), MAX_HEADER_BYTES), f"an object within the {len(body)} bytes behind", f"size {size}")
    fields = _object(bytes(body[:size]))
    rows = fields.pop("tensors", [])
    _check(isinstance(rows, list), "a list of tensors", _shown(rows))
    return Message(fields, _tensors(rows, body[size:]))


def error_fields(error: CadenceError, number: object = None, *, ended: bool = False) -> dict[str, Any]:
    """Return an error as a message; `ended` says that there is no session behind it any more."""
    parts = {name: getattr(error, name) for name in ("code", "what", "expected", "got", "at", "hint")}
    return {"type": "error", "id": number, **parts, "ended": ended}


def malformed(expected: str, got: str) -> SessionError:
    """Return the error of a message that is none."""
    return SessionError("CAD7071", "the message makes no sense", expected=expected, got=got)


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise malformed("a JSON object", str(error)) from None
    _check(isinstance(found, dict), "a JSON object", _shown(found))
    return dict(found)


def _tensors(rows: Sequence[Any], data: memoryview) -> dict[str, Array]:
    found: dict[str, Array] = {}
    taken = 0
    for row in rows:
        name, dtype, shape = _row(row)
        _check(name not in found, "tensors of different names", f"two of {_shown(name)}")
        size = math.prod(shape) * dtype.itemsize
        _check(taken + size <= len(data), f"{taken + size} bytes or more of tensors", f"{len(data)}")
        found[name] = _array(data[taken : taken + size], dtype, shape)
        taken += size
    _check(taken == len(data), f"{taken} bytes of tensors", f"{len(data)}")
    return found


def _row(row: Any) -> tuple[str, "np.dtype[Any]", tuple[int, ...]]:
    _check(isinstance(row, dict) and row.keys() == {"name", "dtype", "shape"}, "name, dtype and shape", _shown(row))
    name, dtype, shape = row["name"], row["dtype"], row["shape"]
    _check(isinstance(name, str), "a name", _shown(name))
    _check(isinstance(dtype, str) and dtype in DTYPES, f"one of {', '.join(DTYPES)}", _shown(dtype))
    sizes = isinstance(shape, list) and len(shape) <= MAX_DIMS and all(type(n) is int and n >= 0 for n in shape)
    _check(sizes, f"a shape of at most {MAX_DIMS} sizes", _shown(shape))
    return name, DTYPES[dtype], tuple(shape)


def _array(data: memoryview, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> Array:
    """A bool has two values, whatever the byte."""
    if dtype.kind == "b":
        return np.asarray(np.frombuffer(data, np.uint8).reshape(shape) != 0)
    return np.frombuffer(data, dtype).reshape(shape)


def _check(holds: bool, expected: str, got: str) -> None:
    if not holds:
        raise malformed(expected, got)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
