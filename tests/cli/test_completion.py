"""Shells complete verbs, options and files; every verb has examples, and they name what exists."""

import os
import shlex
import subprocess
import sys

import click
import pytest

from cadencec.cli.app import app
from cadencec.cli.options import COMPLETE, PROGRAM
from tests.cli.conftest import CommandLine


def completed(*words: str) -> list[str]:
    line = " ".join((PROGRAM, *words))
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words)), COMPLETE: "bash_complete"}
    command = [sys.executable, "-m", "cadencec"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | asked, check=True)
    return done.stdout.split()


def test_verbs_options_choices_and_files() -> None:
    assert completed("ins") == ["plain,inspect"]
    assert "plain,--fail-on" in completed("diff", "--f")
    assert completed("compile", "--target", "cu") == ["plain,cuda"]
    assert completed("compile", "specs/") == ["file,specs/"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_a_shell_is_given(cadencec: CommandLine, shell: str) -> None:
    done = cadencec("completion", shell)
    assert (done.exit_code, done.stderr) == (0, "")
    assert COMPLETE in done.stdout and PROGRAM in done.stdout


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="no bash")
def test_bash_takes_it(cadencec: CommandLine) -> None:
    script = cadencec("completion", "bash").stdout
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", script + "\ncomplete -p cadencec"], capture_output=True, text=True, check=True
    )
    assert "cadencec" in done.stdout


@pytest.mark.parametrize("name", list(app.commands))
def test_examples_name_verbs_and_options_that_exist(name: str) -> None:
    command = app.commands[name]
    lines = (command.epilog or "").splitlines()[2:]
    assert lines, "a verb has examples"
    for line in lines:
        words = shlex.split(line.strip().removeprefix('eval "$(').removesuffix(')"').partition(" > ")[0])
        assert words[:2] == [PROGRAM, name]
        command.make_parser(click.Context(command)).parse_args(words[2:])
