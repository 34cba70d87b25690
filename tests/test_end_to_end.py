"""Case 01 from its spec to a process that knows neither compiler nor model, bit for bit; its 7th step is refused."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
CASE_01 = ROOT / "tests" / "cases" / "01_growing_kv_cat.yaml"

REPLAY = """
import sys
import numpy as np
from cadence_runtime import load
from cadence_runtime.errors import SessionError

plan_file, inputs, target = sys.argv[1:]
frames = np.load(inputs)
with load(plan_file) as plan, plan.session() as session:
    out = [np.asarray(session.push("frame", x=x)["y"]) for x in frames[:6]]
    try:
        session.push("frame", x=frames[6])
    except SessionError as refused:
        print(refused)
    session.push("turn")
    out += [np.asarray(session.push("frame", x=x)["y"]) for x in frames[6:]]
assert "cadencec" not in sys.modules and not any("growing_kv" in name for name in sys.modules)
np.save(target, np.stack(out))
"""


def run(*args: object) -> str:
    done = subprocess.run([sys.executable, *map(str, args)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def eager(frames: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the module itself says: six steps, a reset, and the rest."""
    module = importlib.util.spec_from_file_location("case_01", CASE_01.with_suffix(".py"))
    assert module is not None and module.loader is not None
    loaded = importlib.util.module_from_spec(module)
    module.loader.exec_module(loaded)
    model = loaded.build()
    state, out = model.init_state(), []
    with torch.no_grad():
        for index, x in enumerate(frames):
            state = model.reset(state) if index == 6 else state
            state, y = model.step(state, torch.from_numpy(x))
            out.append(y.numpy())
    return np.stack(out)


def test_case_01_replays_bit_for_bit_without_its_code(tmp_path: Path) -> None:
    plan, inputs, outputs = tmp_path / "case.cpu.plan", tmp_path / "in.npy", tmp_path / "out.npy"
    frames = np.random.default_rng(5).standard_normal((10, 1, 1, 16), np.float32)
    np.save(inputs, frames)
    run("-m", "cadencec", "compile", CASE_01, "-o", plan)
    refused = run("-c", REPLAY, plan, inputs, outputs)
    assert refused.startswith("CAD7005: a 7th `frame` is refused by region `kv`\n")
    assert np.load(outputs).tobytes() == eager(frames).tobytes()
