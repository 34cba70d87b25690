"""Large constants become weights of the plan, and change nothing else."""

from pathlib import Path

import torch

from cadence_runtime.format.tape import Binding, Op, Storage, Tape, View
from cadencec.passes.program import Program
from cadencec.plan.compile import compile_spec
from cadencec.plan.external import LARGE_BYTES, externalise
from cadencec.spec.load import load_spec

LARGE, SMALL, HOST = "aa" * 32, "bb" * 32, "cc" * 32


def view(storage: int) -> View:
    return View(storage, "uint8", (4,), (1,), 0)


def program() -> Program:
    storages = (
        Storage("constant", LARGE, LARGE_BYTES),
        Storage("constant", SMALL, LARGE_BYTES - 1),
        Storage("constant", HOST, LARGE_BYTES, host=True),
        Storage("scratch", "", 4),
    )
    op = Op("aten::cat", ((view(0), view(1), view(2)),), (), (view(3),), (0, 1, 2), (3,), "")
    tape = Tape("step", storages, (), (), (op,), (Binding("y", view(3)),), ())
    constants = {name: torch.full((LARGE_BYTES,), 7, dtype=torch.uint8) for name in (LARGE, SMALL, HOST)}
    return Program(tape, constants, frozenset({LARGE, SMALL}))


def test_only_large_constants_of_the_device_move() -> None:
    tensors: dict[str, torch.Tensor] = {}
    moved = externalise(program(), tensors, torch.device("cpu"))
    assert [(s.kind, s.name) for s in moved.tape.storages[:3]] == [
        ("weight", f"constant.{LARGE}"),
        ("constant", SMALL),
        ("constant", HOST),
    ]
    assert (sorted(moved.constants), moved.derived) == ([SMALL, HOST], frozenset({SMALL}))
    assert list(tensors) == [f"constant.{LARGE}"]
    assert moved.tape.ops == program().tape.ops


MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(-1, 1, 20000))

    def init_state(self):
        return {"h": torch.zeros(20000)}

    def step(self, state, x):
        h = state["h"] + x * torch.sin(self.w)         # sin(w) folds to 80 kB
        return {"h": h}, h[:4].clone()


def build():
    return Model().requires_grad_(False)
"""
SPEC = """
cadence_spec: 1
model: {name: big, entry: "./model.py:build"}
clocks: {frame: 50 Hz}
regions: {h: {shape: [20000]}}
stages: {step: {inputs: [x], outputs: [y]}}
events: {frame: {inputs: {x: [1]}, advance: {frame: 1}, run: [step]}, turn: {reset: true}}
"""


def test_a_plan_with_a_large_constant_verifies_and_embeds_it_with_the_weights(tmp_path: Path) -> None:
    from cadencec.compile.job import write
    from cadencec.verify import verify

    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "model.yaml").write_text(SPEC)
    spec = load_spec(tmp_path / "model.yaml")
    plan = compile_spec(spec).plan
    names = [weight.name for weight in plan.weights if weight.name.startswith("constant.")]
    assert [weight.sizes for weight in plan.weights if weight.name in names] == [(80000,)]
    written = write(plan, tmp_path / "big.cpu.plan", embed_weights=False)
    assert written.plan_bytes < 20_000 < written.weights_bytes
    assert verify(written.plan_file, spec, events=20, walks=1).differences == ()
