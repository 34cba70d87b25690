"""The oracle of a model is found beside its entry, and what is wrong with it is told."""

from pathlib import Path

import pytest
import torch

from cadence_runtime.errors import TraceError
from cadencec.models import mimi, qwen3_omni_code2wav, silero_vad, step_audio2
from cadencec.models.events import unknown
from cadencec.trace.oracle import Oracle, check_names, has_oracle, load_oracle, running

ORACLE = """
class Loop:
    variants = ("released", "plain")
    def __init__(self, device, scale):
        self.device, self.scale = device, scale
    def start(self, variant):
        pass
    def push(self, event, **inputs):
        return []

def build(scale):
    return None

def stock(device="cpu", scale=1):
    return Loop(device, scale)
"""


def found(folder: Path, code: str) -> Oracle | None:
    (folder / "model.py").write_text(code)
    return load_oracle("./model.py:build", {"scale": 3}, folder)


def test_stock_gets_the_options_of_the_entry_and_the_device(tmp_path: Path) -> None:
    oracle = found(tmp_path, ORACLE)
    assert isinstance(oracle, Oracle)
    assert (oracle.device, oracle.scale) == ("cpu", 3)  # type: ignore[attr-defined]


def test_a_module_without_stock_has_no_oracle(tmp_path: Path) -> None:
    assert has_oracle("cadencec.models.silero_vad:build", ".")
    assert found(tmp_path, ORACLE.replace("def stock", "def other")) is None
    assert not has_oracle("./model.py:build", tmp_path)


def test_what_is_no_oracle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        found(tmp_path, "def build(scale): ...\ndef stock(device, scale):\n    return 7\n")
    assert str(caught.value) == (
        "CAD3423: `./model.py:stock` returned no oracle\n"
        "  expected: `variants`, `start(variant)` and `push(event, **inputs)`\n"
        "  got:      `int` without `variants` and `start` and `push`\n"
        "  hint:     give the adapter's module another name for it, or wrap the released loop in a class that has them"
    )


def test_options_and_failures_of_stock_are_told_as_those_of_the_entry(tmp_path: Path) -> None:
    for code, body in (("CAD3405", "def stock(device): ..."), ("CAD3406", "def stock(device, scale): 1 / 0")):
        with pytest.raises(TraceError) as caught:
            found(tmp_path, f"def build(scale): ...\n{body}\n")
        assert caught.value.code == code


def test_an_event_that_no_loop_knows() -> None:
    assert str(unknown("chunk", ("frame", "turn"))) == (
        "CAD3424: the released loop has no event `chunk`\n"
        "  expected: `frame`, `turn`\n"
        "  got:      `chunk`\n"
        "  hint:     name events as the adapter's own spec does, or hold the plan to its own stages by `--stages`"
    )


def test_outputs_that_a_loop_names_otherwise() -> None:
    check_names("the released loop", "chunk", ("a", "b"), ("b", "a"))
    with pytest.raises(TraceError) as caught:
        check_names("the released loop", "chunk", ("y",), ("speech", "score"))
    assert str(caught.value) == (
        "CAD3426: the released loop has other names for the outputs of `chunk`\n"
        "  expected: `speech`, `score`\n"
        "  got:      `y`\n"
        "  hint:     name outputs as the adapter's own spec does, or hold the plan to its own stages by `--stages`"
    )


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (mimi.Stock, "`frame`, `turn`"),
        (qwen3_omni_code2wav.Stock, "`frames`, `last`, `turn`"),
        (silero_vad.Stock, "`chunk`, `reset`"),
        (step_audio2.Stock, "`chunk`, `last`, `first`, `unit`, `end`, `turn`"),
    ],
)
def test_every_oracle_refuses_events_that_it_does_not_know(kind: type, known: str) -> None:
    with pytest.raises(TraceError) as caught:
        kind.push(object.__new__(kind), "other")  # type: ignore[attr-defined]
    assert (caught.value.code, caught.value.expected) == ("CAD3424", known)


def test_a_loop_that_raises_is_told_with_its_line(tmp_path: Path) -> None:
    oracle = found(tmp_path, ORACLE.replace("return []", "raise ValueError('no such chunk')"))
    assert oracle is not None
    with pytest.raises(TraceError) as caught, running("`frame`"):
        oracle.push("frame")
    at = caught.value.at or ""
    assert at.startswith("model.py:9") or "model.py:9" in at
    assert str(caught.value) == (
        "CAD3425: the released loop raised in `frame`\n"
        "  expected: the released loop to take every push of the timeline\n"
        "  got:      ValueError: no such chunk\n"
        f"  at:       {at}\n"
        "  hint:     correct the timeline, or what `stock` makes of the event"
    )


def test_a_loop_runs_without_gradients() -> None:
    with torch.enable_grad(), running("`frame`"):
        assert not torch.is_grad_enabled()
