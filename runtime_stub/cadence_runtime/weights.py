"""The weights file beside a plan: a safetensors file, its tensors found by name and mapped, not copied.

[u64 header length][JSON header: name -> dtype, shape, data_offsets][bytes]
"""

import hashlib
import json
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cadence_runtime.errors import IncompatibleError
from cadence_runtime.format.plan import Plan, Weight
from cadence_runtime.format.tape import ITEM_BYTES

HEADER_LIMIT_BYTES = 100 << 20
DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "BF16": "bfloat16",
    "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of the file: `lower` and `upper` are its half-open range of bytes in the file."""

    dtype: str
    sizes: tuple[int, ...]
    lower: int
    upper: int


class WeightsFile:
    """A mapped safetensors file. Close it when nothing reads its views any more."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            with open(path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else "an empty file"
            raise _unreadable(self.path, reason) from None
        self._data = memoryview(self._map)
        try:
            self.entries = dict(self._read_header())
        except BaseException:
            self.close()
            raise

    def tensor(self, name: str) -> memoryview:
        """Return the raw bytes of a tensor."""
        entry = self.entries[name]
        return self._data[entry.lower : entry.upper]

    def close(self) -> None:
        """Unmap the file, unless a view of it is still in use; then the last view does."""
        try:
            self._data.release()
            self._map.close()
        except BufferError:
            return

    def _read_header(self) -> Iterator[tuple[str, Entry]]:
        size = len(self._data)
        length = int.from_bytes(self._data[:8], "little") if size >= 8 else size
        if length > min(size - 8, HEADER_LIMIT_BYTES):
            raise _unreadable(self.path, f"a header of {length} bytes in a file of {size}")
        try:
            header = json.loads(bytes(self._data[8 : 8 + length]))
            items = [(name, row) for name, row in header.items() if name != "__metadata__"]
            for name, row in items:
                lower, upper = (8 + length + offset for offset in row["data_offsets"])
                yield name, _entry(name, row["dtype"], tuple(row["shape"]), lower, upper, size)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise _unreadable(self.path, "a header that is no safetensors header") from None


def _entry(name: str, dtype: str, sizes: tuple[int, ...], lower: int, upper: int, file_bytes: int) -> Entry:
    kind = DTYPES.get(dtype, "")
    expected = ITEM_BYTES.get(kind, 0)
    for size in sizes:
        if size < 0:
            raise ValueError(name)
        expected *= size
    if not kind or upper - lower != expected or not 0 <= lower <= upper <= file_bytes:
        raise ValueError(name)
    return Entry(kind, sizes, lower, upper)


def find_weights(plan: Plan, plan_path: str, given: str | None) -> str | None:
    """Return the path of the weights file: the one given, or the plan's own name for it, beside the plan; None for a
    plan that embeds everything. Only the last part of the plan's name counts: a plan does not choose folders."""
    if all(weight.blob is not None for weight in plan.weights):
        return None
    if given is not None:
        return given
    name = Path(plan.weights_file or "weights.safetensors").name
    return str(Path(plan_path).parent / name)


def weight_faults(plan: Plan, file: WeightsFile, *, digests: bool) -> Iterator[IncompatibleError]:
    """Yield what in the file is not what the plan was compiled with; with `digests`, look at every byte."""
    for weight in plan.weights:
        if weight.blob is None:
            fault = _fault(weight, file, digests)
            if fault is not None:
                yield IncompatibleError(
                    "CAD6004",
                    f"weight `{weight.name}` is not the one that the plan was compiled with",
                    expected=f"{weight.dtype} {list(weight.sizes)}, sha256 {weight.sha256[:16]}",
                    got=fault,
                    at=file.path,
                    hint="use the weights file of the same release",
                )


def _fault(weight: Weight, file: WeightsFile, digests: bool) -> str | None:
    entry = file.entries.get(weight.name)
    if entry is None:
        return "no tensor of that name"
    if (entry.dtype, entry.sizes) != (weight.dtype, weight.sizes):
        return f"{entry.dtype} {list(entry.sizes)}"
    if digests:
        got = hashlib.sha256(file.tensor(weight.name)).hexdigest()
        return None if got == weight.sha256 else f"sha256 {got[:16]}"
    return None


def _unreadable(path: str, reason: str) -> IncompatibleError:
    return IncompatibleError(
        "CAD6003",
        "the weights file cannot be read",
        expected="the safetensors file that the plan was compiled with",
        got=reason,
        at=path,
        hint="put it beside the plan, or say where it is: `weights=`, `--weights`",
    )
