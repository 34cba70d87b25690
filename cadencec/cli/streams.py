"""Where words go: results to stdout, talk and progress to stderr, colour and a bar only where a person looks.

A reader that closes the pipe has seen enough: nothing more is written, and the verb still ends with its own exit code.
A stdout that cannot be written for another reason (a full disk) is an error like any other.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import click

Progress = Callable[[str, int, int], None]
"""Called with the name of a phase, how many of its steps are done, and how many there are."""


def put(text: str) -> None:
    """Write one result to stdout."""
    try:
        click.echo(text, color=None if may_colour(sys.stdout) else False)
    except BrokenPipeError:
        silence(sys.stdout)
    except OSError:
        silence(sys.stdout)
        raise


def put_json(schema: str, body: Mapping[str, Any]) -> None:
    """Write one JSON object to stdout; `schema` names its shape and version, such as `cadencec.inspect/1`."""
    put_object({"schema": schema} | dict(body))


def put_object(body: Mapping[str, Any]) -> None:
    """Write an object of another's schema to stdout."""
    put(json.dumps(body, indent=2, allow_nan=False))


def say(text: str) -> None:
    """Write talk to stderr; where that cannot be written there is nobody left to tell."""
    try:
        click.echo(text, err=True, color=None if may_colour(sys.stderr) else False)
    except OSError:
        silence(sys.stderr)


def may_colour(stream: TextIO) -> bool:
    """Return whether a person reads the stream and has not asked for plain text (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def silence(stream: TextIO) -> None:
    """Send what is left in the buffer of a broken stream nowhere, so that Python's own exit does not trip over it."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, stream.fileno())
    os.close(devnull)


@contextmanager
def progress() -> Iterator[Progress]:
    """Yield a `Progress`: a bar on a terminal, otherwise one line for each phase."""
    if not sys.stderr.isatty():
        yield _phase_lines()
        return
    # Imported here: rich takes longer than `--help` may.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, no_color=not may_colour(sys.stderr))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda phase, done, total: bar.update(task, description=phase, completed=done, total=total)


def _phase_lines() -> Progress:
    said: set[str] = set()

    def tell(phase: str, done: int, total: int) -> None:
        if phase not in said:
            said.add(phase)
            say(f"{phase} ({total})" if total > 1 else phase)

    return tell
