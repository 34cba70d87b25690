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


def times_ms(work: Callable[[], object], rest: Callable[[], object] = lambda: None) -> tuple[float, float, float]:
    """Return the quartiles of the time of some work in milliseconds; `rest` follows each time, and does not count."""
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        found.append((time.perf_counter() - start) * 1000)
        rest()
    lower, middle, upper = statistics.quantiles(found, n=4)
    return lower, middle, upper


def replay(name: str, folder: Path, started: float) -> dict[str, Any]:
    """Load the plan and push; must not import torch."""
    from cadence_runtime import load

    imported = time.time()
    loaded = load(folder / f"{name}.cuda.plan")
    resident = time.time()
    steady = Steady(name, loaded)
    first = time.time()
    assert "torch" not in sys.modules  # noqa: S101 - what is measured
    outputs = steady.to_the_end()
    return {
        "first_output_s": first - started,
        "import_s": imported - started,
        "load_s": resident - imported,
        "build_and_first_push_s": first - resident,
        "replay_ms": times_ms(steady.launch),
        "host_ms": times_ms(steady.issue, steady.wait),
        "push_ms": times_ms(steady.push),
        "launches": len(steady.captures),
        "nodes": sum(len(steady.resident.graph(capture).nodes) for capture in steady.captures),
        "plan_bytes": (folder / f"{name}.cuda.plan").stat().st_size,
        "output_values": len({float(value) for value in outputs["audio"].ravel()[:200]}),
    }


def memory(name: str, folder: Path, started: float) -> dict[str, Any]:
    """Load the plan, push until no key is new, and compare what the device has lost with what `inspect` predicts."""
    from cadence_runtime import load
    from cadence_runtime.cuda.bindings import CudaDriver
    from cadencec.inspect import inspect

    path = folder / f"{name}.cuda.plan"
    driver = CudaDriver()
    before = driver.open(0).free_bytes  # behind the context
    steady = Steady(name, load(path))
    steady.to_the_end()
    used, found = before - driver.memory()[0], inspect(path)
    assert found.cuda is not None  # noqa: S101
    beyond = found.cuda.executables_bytes + found.cuda.kernels_bytes
    return {
        "arena_bytes": found.arena_bytes,
        "beyond_arena_bytes": used - found.arena_bytes,
        "beyond_arena_predicted_bytes": beyond,
        "ratio": beyond / (used - found.arena_bytes),
        "context_bytes": driver.memory()[1] - before,
    }


class Steady:
    """A session that comes to the push that can go on for ever."""

    def __init__(self, name: str, loaded: Any) -> None:
        self.name, self.loaded, self.session = name, loaded, loaded.session(seed=7)
        self.event = next(event.name for event in loaded.plan.program.events if event.run)
        self.resident = loaded._player._resident
        self.captures: tuple[int, ...] = ()
        self.push()

    def push(self, seed: int = 9) -> Any:
        (record,) = self.session.push(self.event, **{MODELS[self.name][1]: tokens(self.name, seed)})
        return record.outputs

    def to_the_end(self) -> Any:
        """Push until the state stays what it is, and note the captures of such a push; return the last outputs."""
        while True:
            node, outputs = self.session._node, self.push()
            if self.session._node == node:
                break
        rows = self.loaded.plan.transitions
        events = self.loaded.plan.program.events
        row = next(r for r in rows if r.source == node and events[r.event].name == self.event)
        self.captures = row.captures
        return outputs

    def issue(self) -> None:
        for capture in self.captures:
            self.resident.launch(capture)

    def wait(self) -> None:
        self.resident.synchronize()

    def launch(self) -> None:
        self.issue()
        self.wait()


def stock(name: str, folder: Path, started: float) -> dict[str, Any]:
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


CHILDREN = {"replay": replay, "memory": memory, "stock": stock}


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
    if sys.argv[1] in CHILDREN:
        kind, name, folder, started = sys.argv[1:]
        print(json.dumps(CHILDREN[kind](name, Path(folder), float(started))))
        return
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    compiled(name, folder)
    for kind in ("replay", "replay", "memory", "stock"):
        print(kind, json.dumps(child(kind, name, str(folder)), indent=1))


if __name__ == "__main__":
    main()
