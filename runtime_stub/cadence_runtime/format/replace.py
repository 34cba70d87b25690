"""Replaces a file as a whole: whoever opens the path sees the old content or the new, whatever happens in between.

The new content goes to a file of its own in the same folder, reaches the disk, and is then renamed over the path.
"""

import os
import secrets
import signal
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from types import FrameType

from cadence_runtime.errors import UsageError
from cadence_runtime.format.source import not_regular

Path = str | os.PathLike[str]


def replace_file(path: Path, pieces: Sequence[bytes]) -> int:
    """Put the pieces at a path and return their size. A symbolic link keeps pointing where it points.

    Raises UsageError CAD9202 when something other than a file stands there, CAD9204 when the folder is missing, CAD9205
    when the operating system refuses or the disk is full, CAD9206 for `-`. The unfinished file is removed on every
    error, on Ctrl-C and on SIGTERM; only a kill leaves it behind, as `.NAME.*.tmp`.
    """
    return replace_files([(path, pieces)])[0]


def replace_files(files: Sequence[tuple[Path, Sequence[bytes]]]) -> list[int]:
    """Put pieces at several paths, the first before the second, and return their sizes; no path is touched before all
    of the files are whole on the disk. Raises as `replace_file` does."""
    sizes, made = [], []
    with _terminable():
        try:
            for path, pieces in files:
                with _named(path):
                    check_place(path)
                    folder, name = os.path.split(os.path.realpath(path))
                    made.append(os.path.join(folder, f".{name}.{secrets.token_hex(4)}.tmp"))
                    sizes.append(_write(made[-1], pieces))
            for (path, _), temporary in zip(files, made, strict=True):
                with _named(path):
                    os.replace(temporary, os.path.realpath(path))
                    _sync_folder(os.path.dirname(temporary))
        except BaseException:
            for temporary in made:
                _remove(temporary)
            raise
    return sizes


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say of what the operating system refuses which file it is."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise _refused(os.fspath(path), error) from None


def check_writable(path: Path) -> None:
    """Raise UsageError CAD9202 or CAD9204 to CAD9206 where no file can be put at the path; worth asking before long
    work. The file that it tries has no name."""
    check_place(path)
    try:
        with TemporaryFile(dir=os.path.dirname(os.path.realpath(path))):
            pass
    except OSError as error:
        raise _refused(os.fspath(path), error) from None


def check_place(path: Path) -> None:
    """Raise UsageError CAD9202, CAD9204 or CAD9206 where no file can stand at the path."""
    shown, final = os.fspath(path), os.path.realpath(path)
    if shown == "-":
        hint = "name a file; one of this name is `./-`"
        raise UsageError("CAD9206", "nothing is written to stdout", expected="a file", got="`-`", hint=hint)
    folder = os.path.dirname(final)
    if not os.path.isdir(folder):
        raise UsageError("CAD9204", "the folder of the file does not exist", got=folder, at=shown, hint="make it first")
    try:
        mode = os.stat(final).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise not_regular(shown, mode)


def _refused(path: str, error: OSError | ValueError) -> UsageError:
    reason = (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
    hint = "what stood there still stands; free some space or choose another folder"
    return UsageError("CAD9205", "the file cannot be written", got=reason.lower(), at=path, hint=hint)


def _write(path: str, pieces: Sequence[bytes]) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        size = 0
        for piece in pieces:
            left = memoryview(piece)
            while left:
                left = left[os.write(descriptor, left) :]
            size += len(piece)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return size


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _sync_folder(folder: str) -> None:
    """Make the rename itself last; some file systems cannot, and the file is whole either way."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM into an exit that runs clean-up, where nobody else handles it."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
