"""Where in the model's code an op was called: `file:line` of the innermost frame that is neither torch nor ours.

For scripted code that is the line of the call. Paths are relative to the model's folder or to the package that the
file belongs to, never absolute: a tape must not tell where it was made.
"""

import linecache
import os
import sys
import sysconfig
from dataclasses import dataclass, field
from types import CodeType, FrameType

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(_OURS))) + os.sep
_STANDARD = sysconfig.get_path("stdlib") + os.sep


@dataclass(slots=True)
class SourceLines:
    """Finds source lines; `root` is the model's folder, `outermost` the function of ours that calls the model."""

    root: str = ""
    outermost: CodeType | None = None
    _known: dict[CodeType, str] = field(default_factory=dict)

    def here(self) -> str:
        """Return `file:line` of the caller's innermost frame in the model's code, or an empty string."""
        frame = self._frame()
        return "" if frame is None else f"{self._file(frame.f_code)}:{frame.f_lineno}"

    def quoted(self) -> str:
        """Return `here()` with the text of the line, for messages."""
        frame = self._frame()
        return "outside Python" if frame is None else self._quoted(frame.f_code, frame.f_lineno)

    def of_error(self, error: BaseException) -> str:
        """Return the innermost line of the model's code that an error passed through, with its text."""
        at, trace = "outside Python", error.__traceback__
        while trace is not None:
            if self._file(trace.tb_frame.f_code):
                at = self._quoted(trace.tb_frame.f_code, trace.tb_lineno)
            trace = trace.tb_next
        return at

    def is_ours(self, error: BaseException) -> bool:
        """Return whether an error was raised by this package itself: a fault of ours, not of the model's."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS)

    def is_within(self, file: str, word: str) -> bool:
        """Return whether a function whose name holds `word`, in a file of that ending, is being called."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if word in frame.f_code.co_name and frame.f_code.co_filename.endswith(file):
                return True
            frame = frame.f_back
        return False

    def _frame(self) -> FrameType | None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and not self._file(frame.f_code):
            frame = None if frame.f_code is self.outermost else frame.f_back
        return frame

    def _quoted(self, code: CodeType, line: int) -> str:
        text = linecache.getline(code.co_filename, line).strip()
        return f"{self._file(code)}:{line}" + (f": {text}" if text else "")

    def _file(self, code: CodeType) -> str:
        known = self._known.get(code)
        if known is None:
            known = self._known[code] = _relative(code.co_filename, self.root)
        return known


def _relative(path: str, root: str) -> str:
    """Return the path as a tape shows it; an empty string for torch, the standard library and this package."""
    if path.startswith((_TORCH, _OURS, "<")):
        return ""
    if root and path.startswith(root + os.sep):
        return os.path.relpath(path, root).replace(os.sep, "/")
    _, found, tail = path.rpartition("site-packages" + os.sep)
    if not found and path.startswith(os.path.join(_PACKAGES, "cadencec") + os.sep):
        found, tail = "cadencec", path.removeprefix(_PACKAGES)
    if found:
        return tail.replace(os.sep, "/")
    return "" if path.startswith(_STANDARD) else os.path.basename(path)
