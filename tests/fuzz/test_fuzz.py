"""The mutations of `make fuzz`: repeatable, of many kinds, and nothing but our errors from the first of them."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from tests.fuzz import plans, specs

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("module", [plans, specs])
def test_inputs_are_repeatable_and_end_in_many_ways(module: ModuleType) -> None:
    inputs = [module.mutated(7, number) for number in range(300)]
    assert inputs == [module.mutated(7, number) for number in range(300)]
    assert inputs != [module.mutated(8, number) for number in range(300)]
    ends = Counter(map(module.check, inputs))
    assert ends["accepted"] > 0
    assert len(ends) > 8


def test_the_script_counts_and_runs_one_again() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "fuzz.py"), "spec", "--seed", "3"]
    done = subprocess.run([*command, "--count", "100"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("spec: 100 inputs of seed 3 in ")
    again = subprocess.run([*command, "--replay", "99"], capture_output=True, text=True, check=True)
    assert again.stdout.strip() == specs.check(specs.mutated(3, 99))


def test_a_target_that_is_not_there() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "fuzz.py"), "plans"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("no such target: plans; there are plan, spec, atheris, hypothesis")
