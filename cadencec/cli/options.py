"""What several verbs share: their examples, `--json`, `--set`, and the group that reports failures."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from cadence_runtime.errors import UsageError
from cadence_runtime.format.source import require_path
from cadencec.cli.guard import Request, guarded

Callback = TypeVar("Callback", bound=Callable[..., Any])

PROGRAM = "cadencec"
COMPLETE = "_CADENCEC_COMPLETE"
"""The variable by which a shell asks for completions."""


class File(click.Path):
    """A path, which shells complete. Who reads the file says what is wrong with it; an empty path is none at all, and
    no default stands in for it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises UsageError CAD9207 for an empty one."""
        if param is not None:
            require_path(param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name, value)
        return super().convert(value, param, ctx)


FILE = File()


class App(click.Group):
    """A group whose failures become one message and an exit code."""

    def main(self, args: Any = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Parse and run a command line, and exit with its code."""
        extra |= {"prog_name": PROGRAM, "standalone_mode": False}
        run = super().main
        sys.exit(guarded(lambda request: run(args, obj=request, **extra)))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the design, which is that of use."""
        return list(self.commands)


def examples(*lines: str) -> str:
    """Return an epilog that shows command lines as they stand."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def json_option(callback: Callback) -> Callback:
    """Add `--json`; it is read first, so that an error of the rest of the line is an object too."""

    def remember(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
        request = ctx.find_root().obj
        if isinstance(request, Request):
            request.json = value
        return value

    text = "Print one JSON object, also for an error."
    return click.option("--json", "as_json", is_flag=True, is_eager=True, callback=remember, help=text)(callback)


def policy_option(callback: Callback) -> Callback:
    """Add `--policy FILE`."""
    text = "A public key, or trusted certificates (PEM): refuse a plan and weights that are not signed under them."
    return file_option("--policy", metavar="FILE", text=text)(callback)


def file_option(*names: str, metavar: str, text: str, required: bool = False) -> Callable[[Callback], Callback]:
    """Add an option that takes a file."""
    return click.option(*names, type=FILE, metavar=metavar, help=text, required=required)


def weights_option(callback: Callback) -> Callback:
    """Add `--weights FILE`."""
    text = "The weights file; the one beside the plan by default."
    return file_option("--weights", metavar="FILE", text=text)(callback)


def set_option(callback: Callback) -> Callback:
    """Add `--set key=value`."""
    text = "Override a param, an option of the model, or any value by its dotted name. Repeatable."
    return click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", callback=read_overrides, help=text)(
        callback
    )


def read_overrides(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Return `--set` pairs by key; the last one wins."""
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            hint = "quote it where the shell would split it"
            raise UsageError(
                "CAD9005", "`--set` takes a key and a value", expected="KEY=VALUE", got=f"`{pair}`", hint=hint
            )
        overrides[key.strip()] = value
    return overrides
