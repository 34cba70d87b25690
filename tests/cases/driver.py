"""The hazard cases as a user drives them: their inputs as pushes, and what the model itself gives for these."""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

HERE = Path(__file__).parent
CASES = {path.stem[:2]: path for path in sorted(HERE.glob("[0-9]*.py"))}

STEP_KEYS = {
    "01": 6, "02": 4, "03": 1, "08": 1, "10": 2, "11": 1, "13": 2, "15": 2, "19": 1, "21": 3, "24": 1, "25": 5, "27": 8,
}  # fmt: skip
"""Keys of the one stage, as the cases' docstrings count them. A length is one; so is each layout of the same length, as
in 10 and 21. The specs of 13 and 25 declare `layout: contiguous`, so that a slice of a longer history is none."""


@dataclass(frozen=True, slots=True)
class Push:
    """An event, its inputs by name, and the session that it goes to."""

    event: str
    inputs: dict[str, Any]
    session: str = "A"


@dataclass(frozen=True, slots=True)
class Played:
    """What the model gave: outputs of each push in flattening order, and the last state of each session by leaf."""

    outputs: list[list[Any]]
    states: dict[str, dict[str, Any]]


def module_of(number: str) -> ModuleType:
    """Execute a case."""
    spec = importlib.util.spec_from_file_location(f"case_{number}", CASES[number])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spec_path(number: str) -> Path:
    """Return the clock spec of a case."""
    return CASES[number].with_suffix(".yaml")


def pushes(number: str) -> Iterator[Push]:
    """Yield a case's inputs as pushes, resets among them."""
    case = module_of(number)
    examples = case.example_inputs()
    for index, given in enumerate(examples):
        if index in case.META["resets"]:
            yield Push("turn", {})
        yield push(number, index, len(examples), given)


def push(number: str, index: int, count: int, given: Any) -> Push:
    """Return one input as a push."""
    match number:
        case "13":
            return Push("flush" if given[1] else "chunk", {"x": given[0]})
        case "15":
            return Push("one" if given.shape[0] == 1 else "three", {"x": given})
        case "25":
            return Push("first" if index == 0 else "last" if index == count - 1 else "middle", {"tok": given[0]})
        case "27":
            return Push("frame", {"x": given[1]}, given[0])
        case "11":
            return Push("chunk", {"tok": given})
    chunked = number in ("02", "03", "10", "19")
    return Push("chunk" if chunked else "frame", {"x": given})


def eager(number: str) -> Played:
    """Run a case as it is, without cadencec."""
    case = module_of(number)
    model = case.build()
    outputs = []
    with torch.no_grad():
        if number == "27":
            return two_sessions(case, model)
        torch.manual_seed(case.META.get("seed", 0))
        state = model.init_state()
        for index, given in enumerate(case.example_inputs()):
            if index in case.META["resets"]:
                state = model.reset(state)
            state, out = model.step(state, given)
            outputs.append([copied(leaf) for leaf in pytree.tree_leaves(out)])
    return Played(outputs, {"A": leaves(state)})


def two_sessions(case: ModuleType, model: Any) -> Played:
    """Run case 27, one session after the other, each alone."""
    states, found = {}, {}
    for who in "AB":
        state = model.core.init_state()
        for index, (name, x) in enumerate(case.example_inputs()):
            if name == who:
                state, out = model.core.step(state, x)
                found[index] = [copied(out)]
        states[who] = leaves(state)
    return Played([found[index] for index in sorted(found)], states)


def copied(value: Any) -> Any:
    """Return a tensor of its own."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def leaves(state: Any) -> dict[str, Any]:
    """Return the leaves of a state by path."""
    if not isinstance(state, dict):
        return {".": copied(state)}
    return {name: copied(value) for name, value in state.items()}
