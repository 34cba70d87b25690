"""The weights file beside a plan: a safetensors file, its tensors found by name and mapped, not copied."""

import hashlib
import mmap
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from cadence_runtime.errors import IncompatibleError
from cadence_runtime.format.plan import Plan, Weight
from cadence_runtime.format.weights import Entry, HeaderError, read_entries


class WeightsFile:
    """A mapped safetensors file. Close it when nothing reads its views any more."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            self._map = _mapped(self.path)
        except (OSError, ValueError) as error:
            reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else "an empty file"
            raise _unreadable(self.path, reason) from None
        self._data = memoryview(self._map)
        try:
            self.entries = self._read_header()
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

    def _read_header(self) -> dict[str, Entry]:
        try:
            return read_entries(len(self._data), lambda offset, size: bytes(self._data[offset : offset + size]))
        except HeaderError as error:
            raise _unreadable(self.path, str(error)) from None


def _mapped(path: str) -> mmap.mmap:
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _unreadable(path, "not a regular file")
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)


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
