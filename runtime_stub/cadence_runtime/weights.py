"""The weights file beside a plan: a safetensors file, its tensors found by name and mapped, not copied."""

import hashlib
import mmap
import os
import stat
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from cadence_runtime.errors import IncompatibleError
from cadence_runtime.format.plan import Plan, Weight
from cadence_runtime.format.weights import Entry, HeaderError, read_entries

Path = str | os.PathLike[str]


class WeightsFile:
    """A mapped safetensors file; None for a plan that needs none. `fault` is why it cannot be read.

    Used as a context manager. Views of it that are still in use keep it mapped.
    """

    def __init__(self, path: str | None) -> None:
        self.path, self.fault = path, None
        self.entries: dict[str, Entry] = {}
        self._data = memoryview(b"")
        if path is not None:
            try:
                self._data = memoryview(_mapped(path))
                self.entries = read_entries(len(self._data), lambda at, size: bytes(self._data[at : at + size]))
            except (OSError, HeaderError) as error:
                self.fault = _unreadable(path, _reason(error))

    def tensor(self, name: str) -> memoryview:
        """Return the raw bytes of a tensor."""
        entry = self.entries[name]
        return self._data[entry.lower : entry.upper]

    def faults(self, plan: Plan, *, digests: bool) -> Iterator[IncompatibleError]:
        """Yield what in the file is not what the plan was compiled with; with `digests`, look at every byte."""
        if self.fault is not None:
            yield self.fault
            return
        for weight in plan.weights:
            got = self._difference(weight, digests) if weight.blob is None else None
            if got is not None:
                yield IncompatibleError(
                    "CAD6004",
                    f"weight `{weight.name}` is not the one that the plan was compiled with",
                    expected=f"{weight.dtype} {list(weight.sizes)}, sha256 {weight.sha256[:16]}",
                    got=got,
                    at=self.path,
                    hint="use the weights file of the same release",
                )

    def _difference(self, weight: Weight, digests: bool) -> str | None:
        entry = self.entries.get(weight.name)
        if entry is None:
            return "no tensor of that name"
        if (entry.dtype, entry.sizes) != (weight.dtype, weight.sizes):
            return f"{entry.dtype} {list(entry.sizes)}"
        digest = hashlib.sha256(self.tensor(weight.name)).hexdigest() if digests else weight.sha256
        return None if digest == weight.sha256 else f"sha256 {digest[:16]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._data = memoryview(b"")


def open_weights(plan: Plan, plan_path: Path, given: Path | None) -> WeightsFile:
    """Open the weights file of a plan."""
    return WeightsFile(find_weights(plan, plan_path, given))


def find_weights(plan: Plan, plan_path: Path, given: Path | None) -> str | None:
    """Return the path of the weights file: the one given, or the plan's own name for it, beside the plan; None for a
    plan that embeds everything. Only the last part of the plan's name counts: a plan does not choose folders."""
    if all(weight.blob is not None for weight in plan.weights):
        return None
    if given is not None:
        return os.fspath(given)
    name = os.path.basename(plan.weights_file or "weights.safetensors")
    return os.path.join(os.path.dirname(os.fspath(plan_path)), name)


def _mapped(path: str) -> mmap.mmap:
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        if os.fstat(descriptor).st_size == 0:
            raise OSError("an empty file")
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)


def _reason(error: OSError | HeaderError) -> str:
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)


def _unreadable(path: str, reason: str) -> IncompatibleError:
    return IncompatibleError(
        "CAD6003",
        "the weights file cannot be read",
        expected="the safetensors file that the plan was compiled with",
        got=reason,
        at=path,
        hint="put it beside the plan, or say where it is: `weights=`, `--weights`",
    )
