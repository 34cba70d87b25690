"""Small streaming models as text, written to a folder as a user's own would be, with their clock specs."""

from pathlib import Path
from textwrap import dedent

import pytest

from cadence_runtime.cpu.player import CpuPlayer
from cadence_runtime.errors import CadenceError, TraceError
from cadence_runtime.format.plan import Plan
from cadence_runtime.session import LoadedPlan
from cadencec.plan.compile import CompiledPlan, compile_spec
from cadencec.spec.load import parse_spec
from cadencec.spec.spec import Spec

IMPORTS = "import torch\nfrom torch import nn\n"

STEP = """
stages: {step: {inputs: {x: {dtype: float32}}, outputs: [y]}}
events:
  frame: {inputs: {x: [2, 4]}, run: [step]}
  turn: {reset: true}
"""
"""One stage on two rows of four, and a reset."""


def write_spec(folder: Path, body: str, code: str) -> Spec:
    """Write `model.py`, whose code starts with torch imported, and return the spec that names its `build`."""
    (folder / "model.py").write_text(IMPORTS + dedent(code))
    head = 'cadence_spec: 1\nmodel: {name: model, entry: "./model.py:build"}\n'
    return parse_spec(head + dedent(body), str(folder / "model.yaml"))


def compiled(folder: Path, body: str, code: str, **options: object) -> tuple[Spec, CompiledPlan]:
    """Write a model with its spec and compile it with a short walk."""
    spec = write_spec(folder, body, code)
    return spec, compile_spec(spec, **{"walk_events": 12, **options})


def refused(folder: Path, body: str, code: str, **options: object) -> str:
    """Return the message of the TraceError that compiling raises."""
    with pytest.raises(CadenceError) as caught:
        compiled(folder, body, code, **options)
    assert all(isinstance(error, TraceError) for error in getattr(caught.value, "errors", [caught.value]))
    return str(caught.value)


def loaded(plan: Plan) -> LoadedPlan:
    """Return a plan that embeds its weights on the CPU player."""

    def no_file(name: str) -> memoryview:
        raise AssertionError(f"weight {name} is not embedded")

    return LoadedPlan(plan, CpuPlayer(plan, no_file))


def line(text: str, code: str) -> str:
    """Return `model.py:N: text`, the line of the written file that holds `text` first."""
    lines = (IMPORTS + dedent(code)).splitlines()
    number = next(i for i, row in enumerate(lines, 1) if text in row)
    return f"model.py:{number}: {lines[number - 1].strip()}"


def place(text: str, code: str) -> str:
    """Return `model.py:N` of the line that holds `text` first."""
    return ":".join(line(text, code).split(":")[:2])
