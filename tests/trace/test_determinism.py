"""A stock model that is not equal to itself: the op is named, with its line and what makes it deterministic."""

import itertools

import pytest
import torch

from cadence_runtime.format.tape import Op
from cadencec.trace.determinism import lever
from tests.plan.models import STEP, place, refused

CALLS = itertools.count()

BODY = "regions: {h: {shape: [2, 4]}}" + STEP

MODEL = """
class Model:
    def init_state(self):
        return {"h": torch.zeros(2, 4)}

    def step(self, state, x):
        a = x.sin()
        b = torch.ops.cadencec_test.unsteady(a)
        return {"h": state["h"] + b}, b * 2

def build():
    return Model()
"""


@pytest.fixture(scope="module", autouse=True)
def unsteady():
    """An op whose result depends on how often it was called, as a kernel's may on the order of its threads."""
    library = torch.library.Library("cadencec_test", "DEF")
    library.define("unsteady(Tensor x) -> Tensor")
    library.impl("unsteady", lambda x: x + next(CALLS) % 3, "CPU")
    yield
    library._destroy()


def test_the_op_is_named(tmp_path):
    message = refused(tmp_path, BODY, MODEL)
    first, expected, got, at, hint = message.splitlines()
    assert first == ("CAD3801: the stock model is not equal to itself from run to run: `cadencec_test::unsteady`")
    assert expected == "  expected: the same bits from two runs on the same input, state and seed"
    assert got.startswith("  got:      `y` [0, 0]: ")
    assert at == f"  at:       {place('unsteady', MODEL)}"
    assert hint == "  hint:     set `numerics: {deterministic_algorithms: true}` in the spec"


def test_no_op_is_named_where_python_is_to_blame(tmp_path):
    code = MODEL.replace(
        "torch.ops.cadencec_test.unsteady(a)",
        "a * (time.perf_counter_ns() % 1_000_003)",  # a float of the seconds stands still for milliseconds
    ).replace("class Model:", "import time\n\nclass Model:")
    message = refused(tmp_path, BODY, code)
    assert message.startswith("CAD3801: the stock model is not equal to itself from run to run: no single op\n")
    assert message.endswith("the model reads something that changes: time, a thread, memory that nothing wrote")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("aten::convolution", "set `numerics: {cudnn_deterministic: true}` in the spec"),
        ("aten::index_add", "set `numerics: {deterministic_algorithms: true}` in the spec"),
        ("aten::rand", "draw from the default generator"),
    ],
)
def test_levers(name, text):
    assert lever(Op(name, (), (), (), (), (), "")) == text
