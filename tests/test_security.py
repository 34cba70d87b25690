"""The commands that SECURITY.md names are commands: their files, targets and verbs are there."""

import re
from pathlib import Path

import pytest

from cadencec.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
ROWS = re.findall(r"^\| [^|]+ \| (`[^|]+) \|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
COMMANDS = [command for row in ROWS for command in re.split("; ", "; ".join(re.findall("`([^`]+)`", row)))]
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_promise_has_a_command() -> None:
    assert len(COMMANDS) >= 14


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_names_what_is_there(command: str) -> None:
    words = [word for word in command.split() if "=" not in word]
    if words[0] == "make":
        assert words[1] in TARGETS
        return
    program, *rest = words
    assert program.startswith(".venv/bin/")
    if program.endswith("cadencec"):
        assert rest[0] in app.commands
    paths = [word for word in rest if word.startswith(("tests", "scripts"))]
    assert paths or program.endswith("cadencec")
    assert [path for path in paths if not (ROOT / path).exists()] == []
