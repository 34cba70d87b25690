"""An empty path is a usage error in every verb, whatever its default: scripts pass variables that are unset."""

from pathlib import Path

import click
import pytest

from cadence_runtime.errors import UsageError
from cadence_serve.options import OPTIONS, settings_of
from cadencec.cli.app import app
from cadencec.cli.options import File
from tests.cli.conftest import CommandLine, error_of

PATHS = [
    (verb, param) for verb, command in app.commands.items() for param in command.params if isinstance(param.type, File)
]


def line(verb: str, param: click.Parameter) -> list[str]:
    """Return a command line with everything that the verb needs, and nothing for one path."""
    words = [verb]
    for each in app.commands[verb].params:
        if isinstance(each, click.Argument) and each is not param:
            words.append("there")
        elif each is param or each.required:
            words += ([each.opts[-1]] if isinstance(each, click.Option) else []) + ["" if each is param else "there"]
    return words


def name(param: click.Parameter) -> str:
    return param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name


@pytest.mark.parametrize(("verb", "param"), PATHS, ids=[f"{verb} {name(param)}" for verb, param in PATHS])
def test_an_empty_path_is_a_usage_error(cadencec: CommandLine, verb: str, param: click.Parameter) -> None:
    done = cadencec(*line(verb, param), "--json")
    assert done.exit_code == 2
    assert error_of(done) == {
        "code": "CAD9207",
        "what": f"`{name(param)}` has no path",
        "expected": "a path",
        "got": "an empty one",
        "at": None,
        "hint": "a variable of a script that is not set gives such a path",
    }
    assert not list(Path().iterdir())


def test_every_option_with_a_file_or_folder_is_a_path() -> None:
    found = {(verb, param.opts[-1]) for verb, param in PATHS}
    shown = {
        (verb, param.opts[-1])
        for verb, command in app.commands.items()
        for param in command.params
        if isinstance(param, click.Option) and param.metavar in {"FILE", "DIR", "PLAN", "SPEC", "KEY"}
    }
    assert shown <= found
    assert ("compile", "--output") in found


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if option.metavar == "FILE"], ids=lambda each: each.flag
)
def test_the_server_takes_no_empty_path(option: object) -> None:
    with pytest.raises(UsageError, match="CAD9207"):
        settings_of({option.name: ""})  # type: ignore[attr-defined]
