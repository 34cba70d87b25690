"""The one place where a failure becomes a message and an exit code.

    0 ok    1 the work failed    2 usage or spec error    3 differs, or incompatible    130 interrupted

A message goes to stderr once, as `error CAD1203: ...`; with `--json` the same error also stands on stdout as an object.
No traceback is shown unless CADENCEC_DEBUG=1.
"""

import errno
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError

from cadence_runtime.errors import CadenceError, ErrorList, UsageError
from cadencec.cli import streams

INTERRUPTED = 130
ERROR_SCHEMA = "cadencec.error/1"


class MachineError(UsageError):
    """CAD99xx: neither the command line nor its files are to blame, but the machine or cadencec itself."""

    exit_code = 1


@dataclass(slots=True)
class Request:
    """What a handler must know of the command line, even of one that does not parse."""

    json: bool = False


def guarded(work: Callable[[Request], Any]) -> int:
    """Run `work` and return the exit code; whatever it raises has been reported."""
    request = Request()
    _open_streams()
    try:
        result = work(request)
        sys.stdout.flush()
    except NoArgsIsHelpError as help_text:
        streams.say(help_text.format_message())
        return UsageError.exit_code
    except BaseException as failure:
        return _report(failure, request)
    return result if isinstance(result, int) else 0


def _report(failure: BaseException, request: Request) -> int:
    if os.environ.get("CADENCEC_DEBUG") == "1":
        streams.say("".join(traceback.format_exception(failure)).rstrip())
    if isinstance(failure, SystemExit):
        raise failure
    if isinstance(failure, KeyboardInterrupt | click.Abort) and not isinstance(failure.__cause__, EOFError):
        streams.say("interrupted")
        return INTERRUPTED
    error = as_error(failure)
    for single in error.errors if isinstance(error, ErrorList) else (error,):
        streams.say(f"{click.style('error', fg='red')} {single.render()}")
    if request.json:
        _put_error(error)
    return error.exit_code


def _put_error(error: CadenceError) -> None:
    singles = error.errors if isinstance(error, ErrorList) else (error,)
    names = ("code", "what", "expected", "got", "at", "hint")
    rows = [{name: getattr(single, name) for name in names} for single in singles]
    try:
        streams.put_json(ERROR_SCHEMA, {"exit_code": error.exit_code, "errors": rows})
    except OSError as broken:
        streams.say(f"error {as_error(broken).render()}")


def as_error(failure: BaseException) -> CadenceError:
    """Return what was raised as an error with a code."""
    match failure:
        case CadenceError():
            return failure
        case click.ClickException():
            return _click_error(failure)
        case OSError() if failure.errno is not None:
            return os_error(failure)
        case _:
            return _internal_error(failure.__cause__ if isinstance(failure, click.Abort) else failure)


def _click_error(failure: click.ClickException) -> CadenceError:
    what = getattr(failure, "message", "") or failure.format_message()
    close = getattr(failure, "possibilities", None)
    context = getattr(failure, "ctx", None)
    command = context.command_path if context else "cadencec"
    if isinstance(failure, click.BadParameter):
        what = failure.format_message()
    what = what.replace("'", "`").rstrip(".")
    hint = f"did you mean `{close[0]}`?" if close else f"see `{command} --help`"
    return UsageError("CAD9001", what[:1].lower() + what[1:], at=f"`{command}`", hint=hint)


def os_error(failure: OSError) -> CadenceError:
    """Return what the operating system refused as an error with a code, naming the file."""
    name = os.fsdecode(failure.filename) if isinstance(failure.filename, str | bytes | os.PathLike) else None
    reason = (failure.strerror or "i/o error").lower()
    match failure.errno:
        case errno.ENOENT:
            return UsageError("CAD9002", "there is no such file or folder", at=name)
        case errno.EISDIR:
            return UsageError("CAD9003", "a folder stands where a file was expected", at=name, hint="name a file")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return UsageError("CAD9004", "the file may not be read or written", got=reason, at=name)
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            hint = "nothing was changed; free some space, or write elsewhere"
            return MachineError("CAD9901", "there is no room for what is to be written", got=reason, at=name, hint=hint)
        case _:
            return MachineError("CAD9902", "the operating system refused", got=reason, at=name)


def _internal_error(failure: BaseException | None) -> CadenceError:
    got = f"{type(failure).__name__}: {failure}".splitlines()[0].rstrip(": ")
    hint = "this is a bug: run again with CADENCEC_DEBUG=1 and report what it prints"
    return MachineError("CAD9900", "internal error", got=got, hint=hint)


def _open_streams() -> None:
    """Make both streams writable, whatever the process was started with."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Also takes the free descriptor, so that no file that is opened later becomes stdout.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    # A file name need not be text in the encoding of the terminal.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
