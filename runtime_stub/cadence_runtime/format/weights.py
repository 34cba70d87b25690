"""The header of a safetensors file, read strictly: where each tensor lies, by name.

    [u64 length][JSON: name -> dtype, shape, data_offsets; maybe __metadata__][bytes of the tensors, without a gap]

A weights file is written by others, so what the format's own reader refuses is refused here: names that stand twice,
tensors that overlap or leave holes, sizes that do not match their dtype, bytes behind the last tensor.

A file that `cadencec compile` wrote says in its metadata which digest each tensor has, so that one header is enough to
tell the weights of two builds apart.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from cadence_runtime.format.tape import ITEM_BYTES
from cadence_runtime.frozen import frozen

HEADER_LIMIT_BYTES = 100 << 20
METADATA = "__metadata__"
DIGESTS = "cadencec.sha256"
"""The key of the metadata under which digests stand: one JSON object, tensor name -> sha256."""
MAX_BYTES = 2**63 - 1
_SHA256 = re.compile("[0-9a-f]{64}")
DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "BF16": "bfloat16",
    "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64",
}  # fmt: skip
"""The dtypes of safetensors that a tape may hold, by torch's names; tensors of others cannot be weights of a plan."""


class HeaderError(Exception):
    """The header is none; the text says what is wrong, in lower case."""


@frozen
class Entry:
    """A tensor of the file: `lower` and `upper` are its half-open range of bytes in the file. `dtype` is torch's name,
    or that of safetensors where a tape cannot hold it. `sha256` is what the file says of the bytes, if anything."""

    dtype: str
    sizes: tuple[int, ...]
    lower: int
    upper: int
    sha256: str | None = None


def digests_text(digests: Mapping[str, str]) -> str:
    """Return what stands under `DIGESTS`: the sha256 of each tensor, by name."""
    return json.dumps(dict(digests), sort_keys=True)


def read_entries(size_bytes: int, read: Callable[[int, int], bytes]) -> dict[str, Entry]:
    """Return every tensor of a file of `size_bytes`; `read(offset, size)` returns bytes of it. Raises HeaderError."""
    if size_bytes < 8:
        raise HeaderError(f"{size_bytes} bytes, too short for a header")
    length = int.from_bytes(read(0, 8), "little")
    if length > min(size_bytes - 8, HEADER_LIMIT_BYTES):
        raise HeaderError(f"a header of {length} bytes in a file of {size_bytes}")
    try:
        header = json.loads(
            read(8, length).decode(), object_pairs_hook=_object, parse_float=_no_float, parse_constant=_no_float
        )
    except (ValueError, RecursionError):
        raise HeaderError("a header that is no JSON") from None
    if type(header) is not dict:
        raise HeaderError("a header that is no object")
    digests = _digests(header.get(METADATA, {}))
    rows = ((name, row) for name, row in header.items() if name != METADATA)
    entries = {name: _entry(name, row, 8 + length, digests.get(name)) for name, row in rows}
    _check_tiling(entries, 8 + length, size_bytes)
    return entries


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise HeaderError("a name stands twice in the header")
    return made


def _no_float(text: str) -> NoReturn:
    raise HeaderError(f"`{text[:20]}` in the header, which has only integers")


def _digests(metadata: Any) -> Mapping[str, str]:
    """Return what the metadata say of the tensors' bytes."""
    if not _are_strings(metadata):
        raise HeaderError("metadata that are no strings by name")
    try:
        digests = json.loads(metadata.get(DIGESTS, "{}"))
    except (ValueError, RecursionError):
        digests = None
    if not _are_strings(digests) or not all(map(_SHA256.fullmatch, digests.values())):
        raise HeaderError(f"metadata `{DIGESTS}` that are no digests by name")
    found: Mapping[str, str] = digests
    return found


def _are_strings(value: Any) -> bool:
    return type(value) is dict and all(type(item) is str for item in value.values())


def _entry(name: str, row: Any, start: int, sha256: str | None) -> Entry:
    if type(row) is not dict or row.keys() != {"dtype", "shape", "data_offsets"}:
        raise HeaderError(f"tensor `{name[:60]}` without dtype, shape and data_offsets, and nothing else")
    dtype, sizes, offsets = row["dtype"], row["shape"], row["data_offsets"]
    if type(dtype) is not str or not _are_counts(sizes) or not _are_counts(offsets) or len(offsets) != 2:
        raise HeaderError(f"tensor `{name[:60]}` with a dtype, shape or data_offsets of the wrong type")
    lower, upper = offsets
    known = DTYPES.get(dtype, dtype)
    expected = ITEM_BYTES.get(known)
    if expected is not None:
        for size in sizes:
            expected = min(expected * size, MAX_BYTES)
        if upper - lower != expected:
            raise HeaderError(f"tensor `{name[:60]}` of {expected} bytes in {upper - lower}")
    return Entry(known, tuple(sizes), start + lower, start + upper, sha256)


def _are_counts(values: Any) -> bool:
    return type(values) is list and all(type(value) is int and 0 <= value <= MAX_BYTES for value in values)


def _check_tiling(entries: dict[str, Entry], start: int, size_bytes: int) -> None:
    """Make sure that the tensors lie side by side, from the end of the header to the end of the file."""
    end = start
    for name, entry in sorted(entries.items(), key=_by_place):
        if entry.lower != end or entry.upper < entry.lower:
            raise HeaderError(f"tensor `{name[:60]}` from byte {entry.lower} to {entry.upper}, not from {end}")
        end = entry.upper
    if end != size_bytes:
        raise HeaderError(f"tensors that end at byte {end} of {size_bytes}")


def _by_place(item: tuple[str, Entry]) -> tuple[int, int]:
    return (item[1].lower, item[1].upper)
