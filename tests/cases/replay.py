"""Replays compiled cases in a process without cadencec and without their modules: `python replay.py FOLDER`.

FOLDER holds NUMBER.plan and NUMBER.pt (seed, pushes, expected outputs and states) for each case. Every output is
compared at once and once more at the end; one line a case, and exit code 1 where something differs.
"""

import sys
from pathlib import Path
from typing import Any

import torch

from cadence_runtime import load


def same(got: Any, expected: Any) -> bool:
    if not isinstance(expected, torch.Tensor):
        return type(got) is type(expected) and got == expected
    if not isinstance(got, torch.Tensor) or (got.dtype, got.shape) != (expected.dtype, expected.shape):
        return False
    return torch.equal(raw(got), raw(expected))


def raw(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def replay(folder: Path, number: str) -> str:
    told = torch.load(folder / f"{number}.pt")
    with load(folder / f"{number}.plan") as plan:
        sessions = {name: plan.session(seed=told["seed"]) for name in told["states"]}
        kept = []
        for event, inputs, who, expected in told["pushes"]:
            got = [value for record in sessions[who].push(event, **inputs) for value in record.outputs.values()]
            kept.append((got, expected))
            if len(got) != len(expected) or not all(map(same, got, expected)):
                return f"push {len(kept)} (`{event}`) differs at once"
        for index, (got, expected) in enumerate(kept, 1):
            if not all(map(same, got, expected)):
                return f"push {index} differs late"
        for name, session in sessions.items():
            state = session.state()
            for path, value in told["states"][name].items():
                if not same(state[path], value):
                    return f"state leaf `{path}` of session {name} differs"
    return "ok"


if __name__ == "__main__":
    found = {path.stem: replay(path.parent, path.stem) for path in sorted(Path(sys.argv[1]).glob("*.plan"))}
    for number, verdict in found.items():
        print(number, verdict)
    print("modules:", *sorted({"cadencec", "pydantic", "networkx"} & set(sys.modules)))
    sys.exit(any(verdict != "ok" for verdict in found.values()))
