"""Measures a CUDA plan against what it replaces, each in a process of its own; run on a machine with a GPU.

    python scripts/bench_cuda.py toy_tail FOLDER         the toy tail of tests/gpu
    python scripts/bench_cuda.py step_audio2_steady FOLDER     one steady chunk of Step-Audio 2, 10 Euler steps

Compiles the plan into FOLDER, with the weights beside it, unless it is there. Then one process without torch loads it
and pushes, and one with torch builds the model, warms up, captures a graph and replays that. Times to the first
output count from the start of the process. Weights are random.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODELS = {
    "toy_tail": (ROOT / "tests" / "gpu" / "toy_tail.yaml", "tok", (2, 25), "int64"),
    "step_audio2_steady": (ROOT / "specs" / "step_audio2_steady.yaml", "token", (1, 28), "int32"),
}
REPEATS = 30


def tokens(name: str, seed: int) -> Any:
    """Return random tokens of the model's event."""
    import numpy as np

    _, _, shape, dtype = MODELS[name]
    return np.random.default_rng(seed).integers(0, 6561, shape).astype(dtype)


def times_ms(work: Callable[[], object]) -> tuple[float, float, float]:
    """Return the quartiles of the time of some work in milliseconds."""
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        found.append((time.perf_counter() - start) * 1000)
    lower, middle, upper = statistics.quantiles(found, n=4)
    return lower, middle, upper


def replay(name: str, folder: Path, started: float) -> dict[str, Any]:
    """Load the plan and push; must not import torch."""
    from cadence_runtime.check import open_plan
    from cadence_runtime.cuda.bindings import CudaDriver
    from cadence_runtime.cuda.compatibility import arena_bytes, executable_bytes
    from cadence_runtime.cuda.player import CudaPlayer
    from cadence_runtime.session import LoadedPlan
    from cadence_runtime.weights import WeightsFile, find_weights

    imported = time.time()
    path = folder / f"{name}.cuda.plan"
    plan = open_plan(path)
    opened = time.time()
    driver = CudaDriver()
    before = driver.open(0).free_bytes
    weights = WeightsFile(find_weights(plan, str(path), None) or "")
    context = time.time()
    loaded = LoadedPlan(plan, CudaPlayer(plan, driver, weights.pieces))
    resident = time.time()
    event, argument = next(e.name for e in plan.program.events if e.run), MODELS[name][1]
    session = loaded.session(seed=7)
    outputs = session.push(event, **{argument: tokens(name, 0)})
    first = time.time()
    for seed in range(1, 4):
        outputs = session.push(event, **{argument: tokens(name, seed)})
    after = driver.memory()[0]
    player: Any = loaded._player
    capture = max(player._resident._executables, key=lambda index: (len(player._resident.graph(index).nodes), index))

    def launch() -> None:
        player._resident.launch(capture)
        driver.synchronize(player._resident.stream)

    assert plan.cuda is not None and "torch" not in sys.modules  # noqa: S101 - what is measured
    used = [plan.cuda.graphs[index] for index in player._resident._executables]
    return {
        "first_output_s": first - started,
        "import_s": imported - started,
        "open_plan_s": opened - imported,
        "context_s": context - opened,
        "load_s": resident - context,
        "build_and_first_push_s": first - resident,
        "replay_ms": times_ms(launch),
        "push_ms": times_ms(lambda: session.push(event, **{argument: tokens(name, 9)})),
        "nodes": len(player._resident.graph(capture).nodes),
        "plan_bytes": path.stat().st_size,
        "arena_bytes": arena_bytes(plan),
        "beyond_arena_bytes": before - after - arena_bytes(plan),
        "executables_predicted_bytes": executable_bytes(plan.cuda)
        * sum(len(g.nodes) for g in used)
        // max(1, sum(len(g.nodes) for g in plan.cuda.graphs)),
        "output_values": len({float(value) for value in next(iter(outputs)).outputs["audio"].ravel()[:200]}),
    }


def stock(name: str, started: float) -> dict[str, Any]:
    """Build the model, run it, capture it the way torch does, and replay that."""
    import torch

    torch.backends.cudnn.deterministic = True
    if name == "toy_tail":
        sys.path.insert(0, str(ROOT / "tests" / "gpu"))
        from toy_tail import build  # type: ignore[import-not-found]

        model = build().cuda()
        with torch.device("cuda"):
            state = model.init_state()
        static = torch.from_numpy(tokens(name, 0)).cuda()

        def step() -> Any:
            return model.step(state, static)[1]
    else:
        from cadencec.models.step_audio2 import stock as build_stock

        session = build_stock("cuda", n_timesteps=10, P=300)
        static = torch.from_numpy(tokens(name, 0)).cuda()

        def step() -> Any:
            return session.stream(static, last_chunk=False)

    with torch.no_grad():
        for _ in range(4):
            step()
        torch.cuda.synchronize()
        result: dict[str, Any] = {"built_and_warm_s": time.time() - started}
        if name == "toy_tail":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            graph.replay()
            torch.cuda.synchronize()
            result["first_replay_s"] = time.time() - started

            def again() -> None:
                graph.replay()
                torch.cuda.synchronize()

            result["replay_ms"] = times_ms(again)

        def eager() -> None:
            step()
            torch.cuda.synchronize()

        result["step_ms"] = times_ms(eager)
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
    return result


def child(*arguments: str) -> dict[str, Any]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "runtime_stub"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, __file__, *arguments, repr(time.time())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths})
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compiled(name: str, folder: Path) -> None:
    """Compile the plan where it is not there yet."""
    plan = folder / f"{name}.cuda.plan"
    if not plan.exists():
        start = time.time()
        command = [
            sys.executable,
            "-m",
            "cadencec",
            "compile",
            str(MODELS[name][0]),
            "--target",
            "cuda",
            "-o",
            str(plan),
        ]
        paths = os.pathsep.join([str(ROOT), str(ROOT / "runtime_stub"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths}
        )
        print(done.stdout, done.stderr[-2500:] if done.returncode else "", f"compile {time.time() - start:.1f} s")


def main() -> None:
    if sys.argv[1] in ("replay", "stock"):
        kind, name, folder, started = sys.argv[1:]
        result = replay(name, Path(folder), float(started)) if kind == "replay" else stock(name, float(started))
        print(json.dumps(result))
        return
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    compiled(name, folder)
    for kind in ("replay", "replay", "stock"):
        print(kind, json.dumps(child(kind, name, str(folder)), indent=1))


if __name__ == "__main__":
    main()
