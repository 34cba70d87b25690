"""A command line in this process, and plans that are compiled once."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cadencec.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"
CASE_01 = CASES / "01_growing_kv_cat.yaml"

CommandLine = Callable[..., Result]


@pytest.fixture
def cadencec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Run a command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CADENCEC_DEBUG", raising=False)
    return lambda *args: CliRunner().invoke(app, [os.fspath(arg) for arg in args])


@pytest.fixture(scope="session")
def case_01_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan of case 01: a growing cache, at most six frames between turns. Its weights lie beside it."""
    plan = tmp_path_factory.mktemp("case_01") / "case_01.cpu.plan"
    done = CliRunner().invoke(app, ["compile", str(CASE_01), "-o", str(plan)])
    assert done.exit_code == 0, done.output
    return plan


def error_of(done: Result) -> dict[str, Any]:
    """Return the one error of a command line with `--json`, and check that stderr has the same one and no traceback."""
    body = json.loads(done.stdout)
    assert body["schema"] == "cadencec.error/1"
    assert body["exit_code"] == done.exit_code
    (error,) = body["errors"]
    assert done.stderr.count(f"error {error['code']}: {error['what']}\n") == 1
    assert "Traceback" not in done.stderr
    return dict(error)
