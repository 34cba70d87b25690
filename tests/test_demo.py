"""`make demo` says what it found, and says so only when it is true."""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "scripts" / "demo.py"
FOLDER = ROOT / ".cache" / "demo"


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    return runpy.run_path(str(DEMO))


def test_the_demo_finds_the_sentences_and_equal_bits() -> None:
    done = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    spans = [tuple(map(float, span)) for span in re.findall(r"speech from +([\d.]+) s to +([\d.]+) s", done.stdout)]
    # examples/speech.ssml has four sentences.
    assert [(round(start), round(end)) for start, end in spans] == [(1, 3), (4, 7), (8, 10), (11, 13)]
    assert done.stdout.endswith("426 steps compared: bit-identical to the stock model\n")
    assert "the replay imported cadencec" in replay_beside_the_compiler()


def replay_beside_the_compiler() -> str:
    """Return what the replay says where its process knows the compiler."""
    code = f"import cadencec, runpy, sys; runpy.run_path({str(DEMO)!r})['replay'](*sys.argv[1:])"
    files = (FOLDER / "silero-vad.cpu.plan", ROOT / "examples" / "speech.wav", FOLDER / "none.npy")
    return subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True, check=False).stderr


def test_one_bit_makes_the_difference(demo: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    stock = np.linspace(0, 1, 20, dtype=np.float32).reshape(20, 1, 1)
    assert demo["verdict"](stock.copy(), stock) == 0
    other = stock.copy()
    other.view(np.int32)[7] ^= 1
    capsys.readouterr()
    assert demo["verdict"](other, stock) == 3
    said = capsys.readouterr().out
    assert "from step 7 on (1 differ)" in said and "bit-identical" not in said


def test_a_missing_step_and_a_signed_zero_are_differences(demo: dict[str, Any]) -> None:
    stock = np.zeros((4, 1, 1), np.float32)
    assert demo["verdict"](stock[:3], stock) == 3
    assert demo["verdict"](-stock, stock) == 3
