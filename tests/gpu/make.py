"""Compiles one model for CUDA and plays it eagerly, in a process of its own: `python make.py NAME FOLDER [CACHE]`.

Captures are kept in CACHE, or in FOLDER. Leaves FOLDER/NAME.plan and FOLDER/NAME.pickle: seed, pushes (event, inputs,
session, outputs) and last states, all in numpy, so that a process without torch can replay and compare. NAME is the
number of a case, `euler`, `silero`, `step_audio2` or `toy_tail`.
"""

import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from cadencec.compile.job import Request, compile_file
from tests.cases import driver

GPU = Path(__file__).parent
SMALL_STEP_AUDIO2 = {
    "n_timesteps": "3",
    "P": "20",
    "depth": "2",
    "heads": "2",
    "width": "64",
    "layers": "1",
    "up_layers": "1",
    "channels": "32",
    "events.last.choose.n": "1..3",
}
"""The released decoder, smaller than it is released."""


def prepare_case(number: str, folder: Path) -> Path:
    """Copy a case with its device changed, as its README allows; return its spec."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in (driver.CASES[number], driver.HERE / "two_sessions_core.py"):
        (folder / source.name).write_text(source.read_text().replace('DEV = "cpu"', 'DEV = "cuda"'))
    driver.CASES[number] = folder / driver.CASES[number].name
    return Path(shutil.copy(driver.HERE / f"{driver.CASES[number].stem}.yaml", folder))


def played_case(number: str) -> dict[str, Any]:
    outputs = iter((played := driver.eager(number)).outputs)
    rows = [(p.event, p.inputs, p.session, [] if p.event == "turn" else next(outputs)) for p in driver.pushes(number)]
    return {"seed": driver.module_of(number).META.get("seed", 0), "pushes": rows, "states": played.states}


def played_toy_tail() -> dict[str, Any]:
    sys.path.insert(0, str(GPU))
    from toy_tail import TOKENS, build  # type: ignore[import-not-found]

    torch.backends.cudnn.deterministic = True  # as its spec says
    model = build().cuda()
    chosen = torch.Generator().manual_seed(1)
    inputs = [torch.randint(0, 6561, (2, TOKENS), generator=chosen) for _ in range(6)]
    torch.manual_seed(7)
    with torch.device("cuda"):
        state = model.init_state()
    rows: list[Any] = []
    for index, tok in enumerate(inputs):
        if index == 4:
            with torch.device("cuda"):
                state = model.init_state()
            rows.append(("turn", {}, "A", []))
        state, audio = model.step(state, tok.cuda())
        rows.append(("chunk", {"tok": tok}, "A", [audio]))
    return {"seed": 7, "pushes": rows, "states": {"A": state}}


def played_euler() -> dict[str, Any]:
    sys.path.insert(0, str(GPU))
    from euler import STEPS, build  # type: ignore[import-not-found]

    model, chosen = build().cuda(), torch.Generator().manual_seed(1)

    def start() -> dict[str, Any]:
        with torch.device("cuda"):
            whole = model.init_state()
        return {name: list(rows) for name, rows in whole.items()}

    state, rows = start(), []
    for index in range(8):
        if index == 5:
            state = start()
            rows.append(("turn", {}, "A", []))
        mel = torch.randn(1, 3, 16, generator=chosen)
        _, (mu, x) = model.encode({}, mel.cuda())
        for step in range(STEPS):
            changed, x = model.refine({name: state[name][step] for name in state}, mu, x, step=step)
            for name, value in changed.items():
                state[name][step] = value
        rows.append(("chunk", {"mel": mel}, "A", [model.emit({}, x)[1]]))
    leaves = {f"{name}[{step}]": value for name, held in state.items() for step, value in enumerate(held)}
    return {"seed": 0, "pushes": rows, "states": {"A": leaves}}


def played_step_audio2() -> dict[str, Any]:
    from cadencec.models.step_audio2 import stock

    torch.backends.cudnn.deterministic = True  # as its spec says
    sizes = {name: int(value) for name, value in SMALL_STEP_AUDIO2.items() if "." not in name}
    runner = stock("cuda", **sizes)
    torch.manual_seed(7)
    runner.start()
    chosen = torch.Generator().manual_seed(1)
    rows: list[Any] = []
    for count, last in [(28, False)] * 6 + [(3, True)] + [(28, False)] * 4 + [(1, True)]:
        token = torch.randint(0, 6561, (1, count), generator=chosen, dtype=torch.int32)
        event = "last" if last else "chunk"
        rows.append((event, {"token": token}, "A", [runner.stream(token.cuda(), last_chunk=last)]))
        if last:
            runner.reset()
    return {"seed": 7, "pushes": rows, "states": {"A": {}}}


def played_silero() -> dict[str, Any]:
    from cadencec.models.silero_vad import build

    model = build().cuda()
    with torch.device("cuda"):
        state = model.init_state()
    chosen = torch.Generator().manual_seed(1)
    rows: list[Any] = []
    for _ in range(40):
        x = torch.randn(1, 512, generator=chosen)
        state, speech = model.step(state, x.cuda())
        rows.append(("chunk", {"x": x}, "A", [speech]))
    return {"seed": 0, "pushes": rows, "states": {"A": state}}


def on_host(value: Any) -> Any:
    """Return nested tensors as numpy arrays; what numpy does not know becomes raw bits."""
    if isinstance(value, torch.Tensor):
        host = value.detach().cpu().contiguous()
        return host.view(torch.uint16).numpy() if host.dtype == torch.bfloat16 else host.numpy()
    if isinstance(value, dict):
        return {key: on_host(item) for key, item in value.items()}
    return [on_host(item) for item in value] if isinstance(value, list | tuple) else value


def main(name: str, folder: Path, cache: str | None = None) -> None:
    special = {
        "toy_tail": (GPU / "toy_tail.yaml", played_toy_tail),
        "euler": (GPU / "euler.yaml", played_euler),
        "step_audio2": (GPU.parents[1] / "specs" / "step_audio2.yaml", played_step_audio2),
        "silero": (GPU.parents[1] / "specs" / "silero_vad.yaml", played_silero),
    }
    spec, played = special.get(name) or (prepare_case(name, folder / name), lambda: played_case(name))
    plan = str(folder / f"{name}.plan")
    overrides = SMALL_STEP_AUDIO2 if name == "step_audio2" else {}
    request = Request(str(spec), plan, target="cuda", embed_weights=True, overrides=overrides, cache=cache)
    report = compile_file(request, lambda *_: None)
    with torch.no_grad():
        told = played()
    (folder / f"{name}.pickle").write_bytes(pickle.dumps(on_host(told)))
    print(name, "plan bytes", report.written.plan_bytes)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
    sys.stdout.flush()
    os._exit(0)  # torch gives memory back after the allocator in Python is gone
