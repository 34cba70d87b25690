"""Arrays in a file, row by row, for processes that may or may not have torch: what is pushed, and what came out.

{"rows": [[{"event": "chunk", ...}, [["x", "float32", [1, 512], 0, 2048]]], ...]}\n     one line of JSON
the bytes of all arrays, one behind the other
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Array:
    """The bytes of a contiguous tensor; a value that is no tensor has dtype `literal` and is JSON."""

    name: str
    dtype: str
    sizes: tuple[int, ...]
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Row:
    """Some arrays, and what is said of them."""

    head: Mapping[str, Any]
    arrays: tuple[Array, ...]


def literal(name: str, value: object) -> Array:
    """Return a value that is no tensor."""
    return Array(name, "literal", (), json.dumps(value).encode())


def write_rows(path: str | Path, rows: Iterable[Row]) -> None:
    """Write rows to a file."""
    heads, pieces, end = [], [], 0
    for row in rows:
        placed = []
        for array in row.arrays:
            placed.append([array.name, array.dtype, array.sizes, end, len(array.data)])
            pieces.append(array.data)
            end += len(array.data)
        heads.append([dict(row.head), placed])
    with open(path, "wb") as file:
        file.write(json.dumps({"rows": heads}).encode() + b"\n")
        file.writelines(pieces)


def read_rows(path: str | Path) -> list[Row]:
    """Read the rows of a file; their bytes are windows on one buffer."""
    with open(path, "rb") as file:
        heads = json.loads(file.readline())["rows"]
        held = memoryview(file.read())
    return [
        Row(head, tuple(Array(name, dtype, tuple(sizes), held[at : at + size]) for name, dtype, sizes, at, size in own))
        for head, own in heads
    ]
