"""Failures of every kind, through a command line of their own: one message, one code, no traceback."""

import errno
import json
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner, Result

from cadence_runtime.errors import DeviceError, ErrorList, PlanError, SpecError, UsageError
from cadencec.cli.options import App, json_option, set_option


def run(failure: BaseException | None = None, *args: str) -> Result:
    """Run a verb that fails in the given way."""

    @click.group(cls=App)
    def app() -> None:
        """A program."""

    @app.command()
    @click.option("--count", type=int)
    @json_option
    @set_option
    def work(**_: object) -> int:
        click.echo("result")
        if failure is not None:
            raise failure
        return 3

    return CliRunner().invoke(app, ["work", *args])


@pytest.mark.parametrize(
    ("failure", "exit_code"),
    [(SpecError("CAD1203", "a"), 2), (PlanError("CAD5001", "a"), 3), (DeviceError("CAD8001", "a"), 1)],
)
def test_the_family_decides_the_exit_code(failure: BaseException, exit_code: int) -> None:
    done = run(failure)
    assert (done.exit_code, done.stderr) == (exit_code, f"error {failure}\n")


def test_a_verb_returns_its_own_exit_code() -> None:
    done = run()
    assert (done.exit_code, done.stdout, done.stderr) == (3, "result\n", "")


def test_each_of_several_errors_is_printed_once() -> None:
    errors = ErrorList([SpecError("CAD1203", "a", hint="b"), SpecError("CAD1204", "c", at="d.yaml:1:2")])
    done = run(errors)
    assert done.stderr == "error CAD1203: a\n  hint:     b\nerror CAD1204: c\n  at:       d.yaml:1:2\n"
    assert done.exit_code == 2


def test_with_json_an_error_is_an_object_on_stdout_too() -> None:
    done = run(SpecError("CAD1203", "a", expected="b", got="c", at="d", hint="e"), "--json")
    assert json.loads(done.stdout.removeprefix("result\n")) == {
        "schema": "cadencec.error/1",
        "exit_code": 2,
        "errors": [{"code": "CAD1203", "what": "a", "expected": "b", "got": "c", "at": "d", "hint": "e"}],
    }
    assert done.stderr.startswith("error CAD1203: a\n")


def test_cad9001_a_command_line_that_does_not_parse() -> None:
    done = run(None, "--cuont", "3", "--json")
    assert done.exit_code == 2
    assert done.stderr == (
        "error CAD9001: no such option `--cuont`\n  at:       `cadencec work`\n  hint:     did you mean `--count`?\n"
    )


def test_cad9001_is_an_object_even_where_json_stands_behind_the_mistake() -> None:
    done = run(None, "--count", "three", "--json")
    assert json.loads(done.stdout)["errors"][0]["what"] == (
        "invalid value for `--count`: `three` is not a valid integer"
    )


def test_cad9001_an_unknown_verb() -> None:
    done = run(None)
    done = CliRunner().invoke(_empty(), ["comple"])
    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, "error CAD9001: no such command `comple`")


def _empty() -> App:
    return App("cadencec", commands={"compile": click.Command("compile")})


def test_no_verb_at_all_shows_the_help_on_stderr() -> None:
    done = CliRunner().invoke(_empty(), [])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: cadencec [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("number", "exit_code", "message"),
    [
        (errno.ENOENT, 2, "CAD9002: there is no such file or folder\n  at:       a.npz"),
        (errno.EISDIR, 2, "CAD9003: a folder stands where a file was expected\n  at:       a.npz\n"
                          "  hint:     name a file"),
        (errno.EACCES, 2, "CAD9004: the file may not be read or written\n  got:      why\n  at:       a.npz"),
        (errno.ENOSPC, 1, "CAD9901: there is no room for what is to be written\n  got:      why\n  at:       a.npz\n"
                          "  hint:     nothing was changed; free some space, or write elsewhere"),
        (errno.EIO, 1, "CAD9902: the operating system refused\n  got:      why\n  at:       a.npz"),
    ],
)  # fmt: skip
def test_what_the_operating_system_refuses(number: int, exit_code: int, message: str) -> None:
    done = run(OSError(number, "why", "a.npz"))
    assert (done.exit_code, done.stderr) == (exit_code, f"error {message}\n")


def test_cad9005_a_set_without_a_value() -> None:
    with pytest.raises(UsageError) as failure:
        raise _set_error("P:3")
    assert str(failure.value) == (
        "CAD9005: `--set` takes a key and a value\n"
        "  expected: KEY=VALUE\n"
        "  got:      `P:3`\n"
        "  hint:     quote it where the shell would split it"
    )


def _set_error(pair: str) -> UsageError:
    from cadencec.cli.options import read_overrides

    with pytest.raises(UsageError) as failure:
        read_overrides(None, None, (pair,))  # type: ignore[arg-type]
    return failure.value


def test_the_last_set_of_a_key_wins() -> None:
    from cadencec.cli.options import read_overrides

    assert read_overrides(None, None, ("P=1", "a.b=x=y", "P=2")) == {"P": "2", "a.b": "x=y"}  # type: ignore[arg-type]


def test_cad9900_an_unexpected_exception() -> None:
    done = run(KeyError("x"))
    assert done.exit_code == 1
    assert done.stderr == (
        "error CAD9900: internal error\n"
        "  got:      KeyError: 'x'\n"
        "  hint:     this is a bug: run again with CADENCEC_DEBUG=1 and report what it prints\n"
    )


@pytest.mark.parametrize(
    "failure", [EOFError("early"), RecursionError(), MemoryError(), ValueError("two\nlines"), OSError("odd")]
)
def test_cad9900_of_any_kind_is_one_message(failure: BaseException) -> None:
    done = run(failure)
    assert done.exit_code == 1
    assert len(done.stderr.strip().splitlines()) == 3
    assert f"got:      {type(failure).__name__}" in done.stderr


def test_a_traceback_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in run(SpecError("CAD1203", "a")).stderr
    monkeypatch.setenv("CADENCEC_DEBUG", "1")
    done = run(SpecError("CAD1203", "a"))
    assert "Traceback" in done.stderr and done.stderr.endswith("error CAD1203: a\n")


def test_an_interrupt_is_one_line() -> None:
    done = run(KeyboardInterrupt())
    assert (done.exit_code, done.stderr.strip()) == (130, "interrupted")


# Streams of a real process.

PROGRAM = """
import sys
from cadencec.cli import streams
from cadencec.cli.guard import guarded
def work(request):
    for i in range({lines}):
        streams.put("x" * 100)
    streams.say("done")
    return 3
sys.exit(guarded(work))
"""


def shell(line: str, lines: int) -> subprocess.CompletedProcess[str]:
    script = line.format(python=f"{sys.executable} -c '{PROGRAM.format(lines=lines)}'")
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)


def test_a_closed_pipe_is_no_error_and_keeps_the_exit_code() -> None:
    done = shell("{python} | head -1; exit ${{PIPESTATUS[0]}}", 10_000)
    assert (done.returncode, done.stdout, done.stderr) == (3, "x" * 100 + "\n", "done\n")


def test_a_full_disk_under_stdout_is_an_error() -> None:
    done = shell("{python} > /dev/full", 10)
    assert done.returncode == 1
    assert done.stderr.startswith("error CAD9901: there is no room for what is to be written\n")


def test_a_full_disk_under_stderr_changes_nothing() -> None:
    done = shell("{python} 2> /dev/full", 1)
    assert (done.returncode, done.stdout) == (3, "x" * 100 + "\n")


def test_closed_streams_change_nothing() -> None:
    assert shell("{python} >&- 2>&-", 1).returncode == 3


@pytest.fixture
def terminal_output() -> Callable[[dict[str, str]], str]:
    """Run a failing program on a terminal and return what a person sees."""
    import os
    import pty

    def run_there(environment: dict[str, str]) -> str:
        code = 'raise SystemExit(__import__("cadencec.cli.guard").cli.guard.guarded(lambda request: 1 // 0))'
        parent, child = pty.openpty()
        subprocess.run(
            [sys.executable, "-c", code],
            stdout=child,
            stderr=child,
            stdin=child,
            env=os.environ | environment,
            check=False,
        )
        os.close(child)
        text = os.read(parent, 10_000).decode()
        os.close(parent)
        return text

    return run_there


def test_colour_is_for_terminals_that_want_it(terminal_output: Callable[[dict[str, str]], str]) -> None:
    assert "\x1b[31merror\x1b[0m CAD9900" in terminal_output({"TERM": "xterm", "NO_COLOR": ""})
    assert "\x1b" not in terminal_output({"TERM": "xterm", "NO_COLOR": "1"})
    assert "\x1b" not in terminal_output({"TERM": "dumb", "NO_COLOR": ""})
