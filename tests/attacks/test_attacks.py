"""Each attack is refused, by one rule and with one message, and the reader of the tests refuses it as well."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from cadence_runtime.cpu.check import op_faults
from cadence_runtime.errors import CadenceError, raise_all
from cadence_runtime.format.reader import read_plan
from cadence_runtime.zstd import decompress
from tests.format.second_reader import Refused, read

FOLDER = Path(__file__).parent
ATTACKS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("patching", "test_attacks", "__init__"))
BY_TORCH = ("CAD6005", "CAD5602", "CAD5603")
"""What only torch knows is no rule of the format: the reader of the tests does not see it."""


def load(data: bytes) -> None:
    """Take a plan as far as a load does before anything is allocated, on any machine."""
    plan = read_plan(data, decompress=decompress)
    if plan.target == "cpu":
        raise_all(op_faults(plan))


def test_there_are_attacks() -> None:
    assert len(ATTACKS) >= 120


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    attack = runpy.run_path(str(FOLDER / f"{name}.py"))
    data = attack["hostile"]()
    with pytest.raises(CadenceError) as caught:
        load(data)
    assert str(caught.value) == attack["MESSAGE"]
    if caught.value.code not in BY_TORCH:
        with pytest.raises(Refused):
            read(data)


def test_an_attack_is_run_by_hand(tmp_path: Path) -> None:
    plan = tmp_path / "hostile.plan"
    subprocess.run([sys.executable, str(FOLDER / "json_float.py"), str(plan)], check=True)
    with pytest.raises(CadenceError, match="CAD5105"):
        load(plan.read_bytes())
