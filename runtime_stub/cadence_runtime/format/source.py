"""Where the bytes of a plan come from: memory, or a regular file that is read piece by piece.

A file is opened once and never mapped, so that one that changes while it is read gives an error and no fault.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from cadence_runtime.errors import CadenceError, ErrorList, PlanError, UsageError


class Source(Protocol):
    """Bytes of known length."""

    @property
    def size_bytes(self) -> int: ...

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Return exactly these bytes, which lie within the source."""


class MemorySource:
    """A plan in memory."""

    def __init__(self, data: bytes) -> None:
        self._data, self.size_bytes = data, len(data)

    def read(self, offset: int, size_bytes: int) -> bytes:
        return self._data[offset : offset + size_bytes]


class FileSource:
    """A regular file, open for reading; may be read from several threads at once."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor, self._path = descriptor, path
        self.size_bytes = os.fstat(descriptor).st_size

    def read(self, offset: int, size_bytes: int) -> bytes:
        pieces, left = [], size_bytes
        while left:
            piece = os.pread(self._descriptor, left, offset)
            if not piece:
                raise PlanError(
                    "CAD5011", "the plan changed while it was read", expected=f"{left} more bytes", got="the end"
                )
            pieces.append(piece)
            offset, left = offset + len(piece), left - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@contextmanager
def opened(source: "str | os.PathLike[str] | bytes") -> Iterator[Source]:
    """Open bytes, or a path to a regular file. Raises UsageError CAD9201 to CAD9203."""
    if isinstance(source, bytes):
        yield MemorySource(source)
        return
    path = os.fspath(source)
    descriptor = _open(path)
    try:
        yield FileSource(descriptor, path)
    finally:
        os.close(descriptor)


@contextmanager
def naming(source: "str | os.PathLike[str] | bytes") -> Iterator[None]:
    """Let an error that leaves the block name the file that is read, unless it already says where. Raises UsageError
    CAD9203 where the operating system refuses."""
    try:
        yield
    except (OSError, CadenceError) as error:
        if isinstance(source, bytes):
            raise
        path = os.fspath(source)
        raise (unreadable(path, error) if isinstance(error, OSError) else located(error, path)) from None


def _open(path: str) -> int:
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        got = "a link that leads nowhere" if os.path.islink(path) else "nothing"
        raise UsageError("CAD9201", "there is no such plan", expected="a plan file", got=got, at=path) from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise unreadable(path, error) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise not_regular(path, mode)
    return descriptor


def not_regular(path: str, mode: int) -> UsageError:
    """Return what to say when something else stands where a plan file should."""
    return UsageError("CAD9202", "not a file", expected="a regular file", got=kind_of(mode), at=path)


def kind_of(mode: int) -> str:
    """Return what stands where a regular file should, by its mode."""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def require_path(name: str, path: str) -> None:
    """Raise UsageError CAD9207 where what should be a path is empty, as an unset variable of a script is."""
    if not path:
        hint = "a variable of a script that is not set gives such a path"
        raise UsageError("CAD9207", f"`{name}` has no path", expected="a path", got="an empty one", hint=hint)


def require_end(path: "str | os.PathLike[str]") -> None:
    """Raise UsageError CAD9202 for a pipe, which would be waited for, and for a device, which may never end. Whoever
    opens the path says what else is wrong with it."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise not_regular(os.fspath(path), mode)


def unreadable(path: str, error: Exception) -> UsageError:
    """Return what to say when the operating system refuses."""
    reason = (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
    return UsageError(
        "CAD9203", "the plan cannot be read", expected="a readable file", got=reason.lower(), at=path.replace("\0", "?")
    )


def located(error: CadenceError, path: str) -> CadenceError:
    """Return the error, or each error of a list, with the file in front of where it happened."""
    if isinstance(error, ErrorList):
        return ErrorList(located(each, path) for each in error.errors)
    at = path if error.at is None else f"{path}, {error.at}"
    return type(error)(error.code, error.what, expected=error.expected, got=error.got, at=at, hint=error.hint)
