"""`sign`, `compile --sign` and `--policy` as they are typed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import CASE_01, CommandLine, error_of
from tests.runtime.keys import Pair, new_pair


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return new_pair(tmp_path, "release")


@pytest.fixture
def plan(case_01_plan: Path, tmp_path: Path) -> Path:
    """A copy of a plan and its weights, in the working folder."""
    for file in case_01_plan.parent.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path / case_01_plan.name


def test_a_plan_is_signed_and_every_verb_that_loads_it_looks(cadencec: CommandLine, plan: Path, pair: Pair) -> None:
    np.savez("feed.npz", x=np.ones((2, 1, 1, 16), np.float32), events=np.array(["frame"] * 2))
    check = ("check", plan.name, "--policy", pair.public)
    run = ("run", plan.name, "--policy", pair.public, "--input", "feed.npz", "-o", "out.npz")
    verify = ("verify", plan.name, "--policy", pair.public, "--spec", CASE_01, "--events", "4", "--walks", "1")
    for line in (check, run, verify):
        done = cadencec(*line)
        assert done.exit_code == 3 and "CAD6021: the plan is not signed" in done.output
    assert not Path("out.npz").exists()
    done = cadencec("sign", plan.name, "--key", pair.private)
    (weights,) = Path().glob("*.safetensors")
    assert (done.exit_code, done.stdout) == (0, f"{plan.name}.sig: signs {plan.name} and {weights}\n")
    assert [cadencec(*line).exit_code for line in (check, run, verify)] == [0, 0, 0]


def test_signing_as_json(cadencec: CommandLine, plan: Path, pair: Pair) -> None:
    body = json.loads(cadencec("sign", plan.name, "--key", pair.private, "--json").stdout)
    assert (body["schema"], body["signature"]) == ("cadencec.sign/1", f"{plan.name}.sig")
    assert body["files"][0]["name"] == plan.name
    error = error_of(cadencec("sign", plan.name, "--key", pair.public, "--json"))
    assert error["code"] == "CAD9604"


def test_compiling_and_signing_at_once(cadencec: CommandLine, pair: Pair) -> None:
    done = cadencec("compile", CASE_01, "-o", "a.cpu.plan", "--sign", pair.private, "--embed-weights", "--json")
    assert json.loads(done.stdout)["signature"] == "a.cpu.plan.sig"
    assert cadencec("check", "a.cpu.plan", "--policy", pair.public).exit_code == 0
    # What is compiled anew from the same inputs is the same plan, and its signature still holds.
    assert cadencec("compile", CASE_01, "-o", "a.cpu.plan", "--embed-weights").exit_code == 0
    assert cadencec("check", "a.cpu.plan", "--policy", pair.public).exit_code == 0
    assert cadencec("compile", CASE_01, "-o", "a.cpu.plan").exit_code == 0
    assert cadencec("check", "a.cpu.plan", "--policy", pair.public).exit_code == 3


def test_a_policy_that_is_none(cadencec: CommandLine, plan: Path, pair: Pair) -> None:
    error = error_of(cadencec("check", plan.name, "--policy", pair.private, "--json"))
    assert (error["code"], error["got"]) == ("CAD9602", "a private key")
