"""The recipes in `examples/ci/`: the script runs as it stands, and every command in both is one that exists."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cadencec.cli.app import app
from cadencec.compile.job import write
from cadencec.plan.compile import compile_spec
from cadencec.spec import load_spec
from tests.cli.conftest import CASE_01
from tests.runtime.keys import new_pair

ROOT = Path(__file__).resolve().parent.parent
SCRIPT, WORKFLOW = (ROOT / "examples" / "ci" / name for name in ("release.sh", "release.yml"))
JOB = yaml.safe_load(WORKFLOW.read_text())["jobs"]["plan"]


@pytest.fixture
def last(tmp_path: Path) -> Path:
    """The plan of the last release: of a shorter horizon, and so of less memory."""
    plan = compile_spec(load_spec(CASE_01, {"horizon": "3 events"}), embed_weights=True).plan
    return write(plan, tmp_path / "last.cpu.plan", embed_weights=True).plan_file


def released(folder: Path, *arguments: object, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run the script, with this tree's `cadencec` first in the path."""
    folder.mkdir(exist_ok=True)
    (folder / "cadencec").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m cadencec "$@"\n')
    (folder / "cadencec").chmod(0o755)
    values = {"EVENTS": "8", **{name: str(value) for name, value in settings.items()}}
    environment = {**os.environ, **values, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = ["sh", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_release_is_made_signed_and_compared(tmp_path: Path, last: Path) -> None:
    pair, plan = new_pair(tmp_path, "release"), tmp_path / "dist" / "case-2.cpu.plan"
    done = released(
        tmp_path / "bin", CASE_01, plan, last, SIGN_KEY=pair.private, PUBLIC_KEY=pair.public, GATES="memory,+900%"
    )
    assert done.returncode == 0, done.stderr
    (weights,) = plan.parent.glob("*.safetensors")
    made = {path.name.removeprefix(plan.name) for path in plan.parent.iterdir()} - {weights.name}
    assert made == {"", ".sig", ".html", ".cdx.json", ".diff.html"}


def test_a_gate_stops_a_release_and_the_pages_say_why(tmp_path: Path, last: Path) -> None:
    plan = tmp_path / "case-2.cpu.plan"
    done = released(tmp_path / "bin", CASE_01, plan, last)
    assert done.returncode == 3
    assert "memory,+5%" in done.stdout
    assert (tmp_path / "case-2.cpu.plan.diff.html").is_file()


def test_a_failure_stops_at_once(tmp_path: Path) -> None:
    plan = tmp_path / "dist" / "a.plan"
    done = released(tmp_path / "bin", tmp_path / "none.yaml", plan)
    assert (done.returncode, list(plan.parent.iterdir())) == (2, [])
    assert "CAD1001" in done.stderr


def commands(text: str) -> list[list[str]]:
    """Return the lines of a script that run `cadencec`, in words without what the shell makes of variables."""
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("cadencec ")]
    return [shlex.split(re.sub(r"\$\{\w+:\+(.*?)\}", r"\1", line).partition(" > ")[0]) for line in lines]


def test_every_verb_and_option_exists() -> None:
    found = commands(SCRIPT.read_text())
    assert [words[1] for words in found] == ["compile", "check", "verify", "report", "inspect", "diff"]
    for words in [*found, ["cadencec", "diff", "--fail-on"]]:
        known = {option for parameter in app.commands[words[1]].params for option in parameter.opts}
        assert {word for word in words[2:] if word.startswith("-")} <= known, words


def test_the_workflow_runs_the_script_on_what_is_there() -> None:
    text = "\n".join(step.get("run", "") for step in JOB["steps"])
    (line,) = (line.split() for line in text.splitlines() if "release.sh" in line)
    assert ROOT / line[0] == SCRIPT and os.access(SCRIPT, os.X_OK)
    assert line[1:3] == ['"$SPEC"', '"$PLAN"']
    assert (ROOT / JOB["env"]["SPEC"]).is_file()
    assert re.search(r"^setup:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert all(name in SCRIPT.read_text() for name in ("SIGN_KEY", "PUBLIC_KEY", "TARGET"))


def test_every_step_of_the_workflow_is_a_shell_script_or_an_action() -> None:
    for step in JOB["steps"]:
        assert ("run" in step) != ("uses" in step)
        if "run" in step:
            script = re.sub(r"\$\{\{.*?\}\}", "x", step["run"])
            subprocess.run(["sh", "-n", "-c", script], check=True)
