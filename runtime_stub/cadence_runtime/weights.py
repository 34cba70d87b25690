"""The weights file beside a plan: a safetensors file, its tensors found by name and read one at a time, or side by side
by several threads.

The file is opened once and never mapped, so that one that changes meanwhile gives an error and no fault.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from itertools import islice
from types import TracebackType
from typing import Self

from cadence_runtime.errors import IncompatibleError
from cadence_runtime.format.plan import Plan, Weight
from cadence_runtime.format.source import kind_of
from cadence_runtime.format.validate import MAX_ERRORS
from cadence_runtime.format.weights import Entry, HeaderError, read_entries

Path = str | os.PathLike[str]
PIECE_BYTES = 1 << 22


class WeightsFile:
    """An open safetensors file; None for a plan that needs none. `fault` is why it cannot be read.

    Used as a context manager.
    """

    def __init__(self, path: str | None) -> None:
        self.path, self.fault = path, None
        self.entries: dict[str, Entry] = {}
        self._wanted: dict[str, Weight] = {}
        self._descriptor, self._size_bytes = -1, 0
        if path is not None:
            try:
                self._descriptor, self._size_bytes = _opened(path)
                self.entries = read_entries(self._size_bytes, lambda at, size: bytes(self._read(at, size)))
            except (OSError, ValueError, HeaderError) as error:  # ValueError: a null byte in the path
                self.fault = _unreadable(path, error)

    def compare_with(self, plan: Plan) -> None:
        """Take nothing on trust from here on: the bytes of a tensor that are read, and not only those that stood in the
        file at some time, have the digest that the plan names, or IncompatibleError CAD6004 is raised at their end."""
        self._wanted = {weight.name: weight for weight in plan.weights}

    def tensor(self, name: str) -> memoryview:
        """Return the raw bytes of a tensor, as they are now. Raises IncompatibleError CAD6003."""
        entry = self.entries[name]
        *_, whole = memoryview(b""), *self._pieces(name, max(entry.upper - entry.lower, 1))
        return whole

    def pieces(self, name: str) -> Iterator[memoryview]:
        """Yield the raw bytes of a tensor, as they are now, a few megabytes at a time; each piece stays until the next
        is asked for. Raises IncompatibleError CAD6003."""
        return self._pieces(name, PIECE_BYTES)

    def _pieces(self, name: str, piece_bytes: int) -> Iterator[memoryview]:
        entry, wanted, digest = self.entries[name], self._wanted.get(name), hashlib.sha256()
        buffer = memoryview(bytearray(min(piece_bytes, entry.upper - entry.lower)))
        for at in range(entry.lower, entry.upper, piece_bytes):
            piece = buffer[: entry.upper - at]
            try:
                self._fill(piece, at)
            except OSError as error:
                raise _unreadable(self.path or "", error) from None
            if wanted is not None:
                digest.update(piece)
            yield piece
        if wanted is not None and digest.hexdigest() != wanted.sha256:
            raise self._another(wanted, f"sha256 {digest.hexdigest()[:16]}")

    def sha256(self) -> str:
        """Return the digest of the whole file. Raises IncompatibleError CAD6003."""
        digest, size = hashlib.sha256(), self._size_bytes
        try:
            for at in range(0, size, PIECE_BYTES):
                digest.update(self._read(at, min(PIECE_BYTES, size - at)))
        except OSError as error:
            raise _unreadable(self.path or "", error) from None
        return digest.hexdigest()

    def faults(self, plan: Plan, *, digests: bool) -> Iterator[IncompatibleError]:
        """Yield what in the file is not what the plan was compiled with, as far as its header tells; with `digests`,
        look at every byte. Of many differences, the first few."""
        if self.fault is not None:
            yield self.fault
            return
        weights = (weight for weight in plan.weights if weight.blob is None)
        differences = ((weight, self._difference(weight, digests)) for weight in weights)
        another = (self._another(weight, got) for weight, got in differences if got is not None)
        try:
            yield from islice(another, MAX_ERRORS)
        except IncompatibleError as unreadable:
            yield unreadable

    def _difference(self, weight: Weight, digests: bool) -> str | None:
        entry = self.entries.get(weight.name)
        if entry is None:
            return "no tensor of that name"
        if (entry.dtype, entry.sizes) != (weight.dtype, weight.sizes):
            return f"{entry.dtype} {list(entry.sizes)}"
        said = self._sha256_of(weight.name) if digests else entry.sha256 or weight.sha256
        return None if said == weight.sha256 else f"sha256 {said[:16]}"

    def _sha256_of(self, name: str) -> str:
        digest = hashlib.sha256()
        for piece in self.pieces(name):
            digest.update(piece)
        return digest.hexdigest()

    def _another(self, weight: Weight, got: str) -> IncompatibleError:
        return IncompatibleError(
            "CAD6004",
            f"weight `{weight.name}` is not the one that the plan was compiled with",
            expected=f"{weight.dtype} {list(weight.sizes)}, sha256 {weight.sha256[:16]}",
            got=got,
            at=self.path,
            hint="use the weights file of the same release",
        )

    def _read(self, at: int, size_bytes: int) -> memoryview:
        whole = memoryview(bytearray(size_bytes))
        self._fill(whole, at)
        return whole

    def _fill(self, left: memoryview, at: int) -> None:
        while left:
            count = os.preadv(self._descriptor, [left], at)
            if count == 0:
                raise OSError("it was cut short while it was read")
            at, left = at + count, left[count:]

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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


def _opened(path: str) -> tuple[int, int]:
    """Return the descriptor of a regular file, and its size in bytes."""
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(f"{kind_of(status.st_mode)}, which is no regular file")
    return descriptor, status.st_size


def _unreadable(path: str, error: Exception) -> IncompatibleError:
    got = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, FileNotFoundError) and os.path.islink(path):
        got = "a link that leads nowhere"
    return IncompatibleError(
        "CAD6003",
        "the weights file cannot be read",
        expected="the safetensors file that the plan was compiled with",
        got=got,
        at=path.replace("\0", "?"),
        hint="put it beside the plan, or say where it is: `weights=`, `--weights`",
    )
