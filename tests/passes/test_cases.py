"""The sixteen hazard modules at the level of tapes: every step, under every combination of passes, bit for bit."""

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from cadence_runtime.errors import CadenceError
from cadencec.passes.pipeline import PASSES, optimise
from cadencec.trace.bits import same_bits
from cadencec.trace.interpret import interpret
from cadencec.trace.recorder import collect_weights, record
from tests.trace.stages import fresh

CASES = sorted(path for path in (Path(__file__).parent.parent / "cases").glob("[0-9]*.py"))
REFUSED = {
    "07_inplace_buffer_nonzero_init": ("CAD3201", ["mean", "last", "07_inplace_buffer_nonzero_init.py:32"]),
    "17_data_dependent_branch": ("CAD3101", ["_local_scalar_dense", "17_data_dependent_branch.py:27: if "]),
}
SWITCHES = [
    frozenset(chosen) for count in range(len(PASSES) + 1) for chosen in itertools.combinations(sorted(PASSES), count)
]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaves(tree: Any) -> dict[str, Any]:
    flat, _ = pytree.tree_flatten_with_path(tree, is_leaf=lambda leaf: leaf is None)
    return {pytree.keystr(path): leaf for path, leaf in flat}


def generators(device: torch.device | None) -> list[torch.Tensor]:
    states = [torch.get_rng_state()]
    return states if device is None else [*states, torch.cuda.get_rng_state(device)]


def play(case: ModuleType, device: torch.device | None = None) -> int:
    """Record, replay and compare every step of a case; return how many tapes there were."""
    case.DEV = str(device or "cpu")
    model = case.build()
    weights = collect_weights(model)
    state, tapes = model.init_state(), set()
    for index, given in enumerate(case.example_inputs()):
        if index in case.META["resets"]:
            state = model.reset(state)
        values = list(pytree.tree_leaves(given))
        inputs = {f"x{i}": value for i, value in enumerate(values)}
        before, fed = pytree.tree_map(fresh, state), {name: fresh(value) for name, value in inputs.items()}
        torch.manual_seed(index)
        seen: dict[str, Any] = {}

        def call(state: Any = state, given: Any = given, seen: dict[str, Any] = seen) -> Any:
            seen["state"], outputs = model.step(state, given)
            return pytree.tree_leaves(outputs), leaves(seen["state"])

        count = 4 if case.__name__.startswith("24") else 1
        names = [f"y{i}" for i in range(count)]
        recording = record("step", call, inputs, leaves(state), weights, names=names, device=device)
        advanced = generators(device)
        tapes.add(optimise(recording, weights, device=device).tape)
        for switches in SWITCHES:
            program = optimise(recording, weights, switches, device=device)
            torch.manual_seed(index)
            outputs, new = interpret(
                program.tape, fed, leaves(before), weights.tensor, program.constants.__getitem__, device
            )
            assert all(map(same_bits, outputs, recording.outputs)), (index, switches)
            assert all(same_bits(new[path], recording.state[path]) for path in new), (index, switches)
            assert all(map(torch.equal, generators(device), advanced))
        state = seen["state"]
    return len(tapes)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_replays_or_is_refused_by_name(path: Path):
    check(path, None)


@pytest.mark.gpu
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_replays_on_a_device_or_is_refused_by_name(path: Path):
    check(path, torch.device("cuda", 0))


def check(path: Path, device: torch.device | None) -> None:
    case = load(path)
    if path.stem in REFUSED:
        code, words = REFUSED[path.stem]
        with pytest.raises(CadenceError) as caught:
            play(case, device)
        assert caught.value.code == code
        assert all(word in str(caught.value) for word in [*words, *case.META["names"]])
        return
    expected = {"01": 6, "02": 4, "03": 1, "08": 1, "10": 2, "19": 1, "21": 3}
    tapes = play(case, device)
    assert tapes == expected.get(path.stem[:2], tapes)


def test_all_cases_are_here():
    assert len(CASES) == 16
