"""The one error tree of cadencec and its runtime, and the one way a message looks.

Every failure that a user can meet is a `CadenceError` with a stable code. The first digit of a code is its family,
and the family decides the exit code of the command line:

    CAD1xxx  SpecError          exit 2   the clock spec cannot be read or makes no sense
    CAD2xxx  TimelineError      exit 2   the spec reads well, but its timeline cannot be proven
    CAD3xxx  TraceError         exit 1   the model could not be traced faithfully
    CAD4xxx  TargetError        exit 1   a tape could not be captured, planned or compiled for its target
    CAD5xxx  PlanError          exit 3   the file is not a plan, or not a valid one
    CAD6xxx  IncompatibleError  exit 3   a valid plan that cannot run here, or that differs from the stock runtime
    CAD7xxx  SessionError       exit 2   a session was asked for something that its plan does not allow
    CAD8xxx  DeviceError        exit 1   the device or its driver failed
    CAD9xxx  UsageError         exit 2   the command line or a file given to it (CAD99xx: exit 1, internal)

A message is lower case and has one line for each part that is known:

    error CAD1203: unknown key `retian` in region `kv`
      expected: one of `axis`, `clock`, `dtype`, `leaves`, `retain`, `shape`, `start`
      got:      `retian`
      at:       kv.yaml:12:5
      hint:     did you mean `retain`?
"""

from collections.abc import Iterable
from typing import ClassVar


class CadenceError(Exception):
    """A failure with a stable code; `str()` of it is the whole message, without the leading `error`."""

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        code: str,
        what: str,
        *,
        expected: str | None = None,
        got: str | None = None,
        at: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.code, self.what = code, what
        self.expected, self.got, self.at, self.hint = expected, got, at, hint
        super().__init__(self.render())

    def render(self) -> str:
        """Return `CODE: what` and one indented line for each of expected, got, at and hint that is known."""
        parts = (("expected", self.expected), ("got", self.got), ("at", self.at), ("hint", self.hint))
        lines = [f"{self.code}: {self.what}"]
        lines += [f"  {name + ':':<9} {text}" for name, text in parts if text is not None]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.code, self.what, self.expected, self.got, self.at, self.hint))


def _rebuild(cls: type[CadenceError], code: str, what: str, *parts: str | None) -> CadenceError:
    expected, got, at, hint = parts
    return cls(code, what, expected=expected, got=got, at=at, hint=hint)


class SpecError(CadenceError):
    """CAD1xxx: the clock spec cannot be read or makes no sense."""

    exit_code = 2


class TimelineError(CadenceError):
    """CAD2xxx: the timeline of a well-formed spec cannot be proven."""

    exit_code = 2


class TraceError(CadenceError):
    """CAD3xxx: the model could not be traced faithfully."""


class TargetError(CadenceError):
    """CAD4xxx: a tape could not be captured, planned or compiled for its target."""


class PlanError(CadenceError):
    """CAD5xxx: not a plan, or not a valid one."""

    exit_code = 3


class IncompatibleError(CadenceError):
    """CAD6xxx: a valid plan that cannot run here, or that differs from the stock runtime."""

    exit_code = 3


class SessionError(CadenceError):
    """CAD7xxx: a session was asked for something that its plan does not allow."""

    exit_code = 2


class DeviceError(CadenceError):
    """CAD8xxx: the device or its driver failed."""


class UsageError(CadenceError):
    """CAD9xxx: the command line or a file given to it."""

    exit_code = 2


class ErrorList(CadenceError):
    """Several independent errors of one pass, in the order in which a reader meets their causes."""

    def __init__(self, errors: Iterable[CadenceError]) -> None:
        self.errors = tuple(errors)
        if not self.errors:
            raise ValueError("an error list needs at least one error")
        self.exit_code = max(error.exit_code for error in self.errors)  # type: ignore[misc]
        first = self.errors[0]
        super().__init__(first.code, first.what, expected=first.expected, got=first.got, at=first.at, hint=first.hint)

    def render(self) -> str:
        """Return every message, one after the other."""
        return "\n".join(error.render() for error in self.errors)

    def __reduce__(self) -> tuple[object, ...]:
        return (ErrorList, (self.errors,))


def raise_all(errors: Iterable[CadenceError]) -> None:
    """Raise the one error, or an `ErrorList` of several; return when there is none."""
    found = tuple(errors)
    if len(found) == 1:
        raise found[0]
    if found:
        raise ErrorList(found)
