"""What recording cannot see and comparing does: each hazard ends as an error that names what it can."""

import ctypes
from dataclasses import replace

import pytest
import torch

from cadence_runtime.format.tape import Literal
from cadencec.passes.program import Program
from cadencec.trace import fidelity
from cadencec.trace.watch import first_difference
from tests.plan.models import STEP, compiled, place, refused

PEEK = """
import ctypes

class Model:
    def init_state(self):
        return {"h": torch.zeros(2, 4)}

    def step(self, state, x):
        loud = abs(ctypes.c_float.from_address(x.data_ptr()).value) > 0.5
        y = x * (2.0 if loud else 3.0)
        return {"h": state["h"] + y}, y.tanh()

def build():
    return Model()
"""
"""Reads an input by its address, which no dispatch mode can see."""

BODY = "regions: {h: {shape: [2, 4]}}" + STEP


def test_a_hidden_branch_is_found_on_other_values(tmp_path):
    message = refused(tmp_path, BODY, PEEK)
    first, expected, got, at, hint = message.splitlines()
    assert first == "CAD3701: stage `step` does not replay as the model runs: `aten::mul.Tensor` differs"
    assert expected == "  expected: the bits of the untraced model on values that were not traced"
    assert got.startswith("  got:      output `y` [0, 0]: ")
    assert at == f"  at:       {place('y = x *', PEEK)}"
    assert hint.endswith("(`.numpy()`, `.tolist()`, an attribute) was frozen into the tape")
    assert ctypes.sizeof(ctypes.c_float) == 4


def test_a_value_that_decides_a_shape_of_the_state(tmp_path):
    code = PEEK.replace('{"h": state["h"] + y}', '{"h": (y if loud else torch.cat([y, y], 1)[:, :4])}')
    message = refused(tmp_path, BODY, code)
    assert message.startswith("CAD3704: the state leaf `h` takes another form when `step` runs on other values\n")
    assert "strides=(8, 1)" in message


def test_state_that_python_does_not_show_is_found_by_the_walk(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPS", "0")
    code = """
    import os

    class Model:
        def init_state(self):
            return {"h": torch.zeros(2, 4)}

        def step(self, state, x):
            os.environ["STEPS"] = str(int(os.environ.get("STEPS", 0)) + 1)
            return {"h": state["h"] + x}, x * (1.0 if int(os.environ["STEPS"]) < 20 else 2.0)

    def build():
        return Model()
    """
    message = refused(tmp_path, BODY, code, walk_events=40)
    assert message.splitlines()[0].startswith("CAD3705: the plan leaves the stock model after ")
    assert message.splitlines()[1] == "  expected: the same bits from a fresh model on a random walk"
    assert message.splitlines()[-1] == "  hint:     the model keeps something between steps that is not in its state"


def test_bits_that_depend_on_the_models_own_inference_mode(tmp_path):
    code = """
    class Model:
        def init_state(self):
            return {"h": torch.zeros(2, 4)}

        @torch.inference_mode()
        def step(self, state, x):
            y = x * 2 if torch.is_inference_mode_enabled() else x * 3
            return {"h": state["h"] + x}, y

    def build():
        return Model()
    """
    message = refused(tmp_path, BODY, code)
    assert message.splitlines()[:2] == [
        "CAD3706: the model gives other bits under its own torch modes than under those of a recording",
        "  expected: the same bits under `no_grad`, with scripted code unoptimised",
    ]
    assert message.splitlines()[-1] == (
        "  hint:     take `torch.inference_mode` out of the model, or let `build` warm scripted code up"
    )
    done = compiled(tmp_path, BODY, code.replace("x * 3", "x + x"))[1]
    assert done.plan.fidelity.walk_events == 12


def test_a_weight_that_a_session_changes_is_named(tmp_path):
    code = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("h0", torch.ones(2, 4))

        def init_state(self):
            return {"h": self.h0}

        def step(self, state, x):
            return {"h": state["h"].add_(x)}, x * 2

    def build():
        return Model()
    """
    assert refused(tmp_path, BODY, code) == (
        "CAD3703: a session changed the model itself\n"
        "  expected: the same tensors, bit for bit\n"
        "  got:      another `h0`\n"
        "  hint:     a session must change nothing but its state: clone what the state starts from"
    )


def test_two_builds_that_are_not_equal(tmp_path):
    code = """
    import os

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.frombuffer(bytearray(os.urandom(8)), dtype=torch.int64).float())

        def init_state(self):
            return {"h": torch.zeros(2, 4)}

        def step(self, state, x):
            return {"h": state["h"] + x}, x * self.w

    def build():
        return Model()
    """
    assert refused(tmp_path, BODY, code) == (
        "CAD3703: two builds of the model are not equal\n"
        "  expected: the same tensors, bit for bit\n"
        "  got:      another `w`\n"
        "  hint:     seed the generators inside of `build`, or load the weights from a file"
    )


SUM = """
class Model:
    def init_state(self):
        return {"h": torch.zeros(2, 4)}

    def step(self, state, x):
        return {"h": state["h"] + x}, x * 3

def build():
    return Model()
"""


def test_a_pass_that_breaks_a_tape_is_found(tmp_path, monkeypatch):
    def broken(recording, weights, switches, *, device):
        ops = tuple(
            replace(op, args=(op.args[0], Literal("int", "4"))) if op.name == "aten::mul.Tensor" else op
            for op in recording.tape.ops
        )
        return Program(replace(recording.tape, ops=ops), recording.constants)

    monkeypatch.setattr("cadencec.plan.compile.optimise", broken)
    message = refused(tmp_path, BODY, SUM)
    assert message.splitlines()[0] == (
        "CAD3702: stage `step` does not replay as the model runs, though each of its ops does"
    )
    assert message.splitlines()[2].startswith("  got:      output `y` [0, 0]: ")
    assert message.splitlines()[3] == (
        "  hint:     this is a fault of a pass or of how results are bound; switch passes off to find which"
    )


def test_a_draw_that_a_tape_lacks_moves_the_generator(tmp_path, monkeypatch):
    code = SUM.replace("x * 3", "x + 0 * torch.rand(1).floor()")

    def broken(recording, weights, switches, *, device):
        ops = tuple(op for op in recording.tape.ops if not op.draws)
        return Program(replace(recording.tape, ops=ops), recording.constants)

    monkeypatch.setattr("cadencec.plan.compile.optimise", broken)
    assert "the random generator has drawn another number of values" in refused(tmp_path, BODY, code)


def test_constant_outputs_are_told(tmp_path):
    code = SUM.replace("x * 3", "x * 0.0 + 1.0")
    _, done = compiled(tmp_path, BODY, code)
    assert done.plan.fidelity.constant_outputs == ("y",)
    assert done.warnings == ("output `y` had the same bits for all inputs that were tried: is the model initialised?",)


def test_outputs_that_change_once_in_a_while_are_not_constant():
    outputs = fidelity.Outputs()
    for value in (1.0, 1.0, 2.0, 1.0):
        outputs.note("step", {"y": torch.tensor([value]), "z": torch.zeros(2), "none": None, "empty": torch.zeros(0)})
    assert (outputs.constant(), outputs.compared) == (("z",), 16)


def test_the_plan_says_what_was_compared(tmp_path):
    _, done = compiled(tmp_path, BODY, SUM)
    report = done.plan.fidelity
    assert (report.tapes, report.values_per_tape, report.walk_events) == (3, 3, 12)
    frames = report.outputs_compared - 3
    assert 0 < frames <= 12


@pytest.mark.parametrize(
    ("got", "expected", "text"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]), "[1]: 2.0 instead of 2.5"),
        (torch.tensor([[0.0]]), torch.tensor([[-0.0]]), "[0, 0]: 0.0 instead of -0.0"),
        (torch.tensor(3), torch.tensor(4), "[]: 3 instead of 4"),
        (torch.zeros(2), torch.zeros(3), "sizes [2] instead of [3]"),
        (torch.zeros(2), torch.zeros(2, dtype=torch.float64), "float32 instead of float64"),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), None),
        (torch.zeros(0, 3), torch.zeros(0, 3), None),
        (torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j]), None),
    ],
)
def test_first_difference_looks_at_bits(got, expected, text):
    assert first_difference(got, expected) == text


def test_nan_bits_count():
    quiet = torch.tensor([0x7FC00000], dtype=torch.int32).view(torch.float32)
    other = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert first_difference(quiet, other) == "[0]: 0x7fc00000 instead of 0x7fc00001"


def test_values_of_other_types_differ():
    assert fidelity.difference(None, torch.zeros(2)) == "None instead of a tensor [2]"
    assert fidelity.difference(True, 1) == "True instead of 1"
    assert fidelity.difference(3, 3) is None
