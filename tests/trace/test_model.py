"""Loading a model, and how its stages are called: what works, and what is refused with the user's own line."""

import random

import pytest
import torch

from cadence_runtime.errors import TraceError
from cadence_runtime.host.program import Stage, StageInput
from cadencec.trace.model import load_model

MODEL = """
class Model:
    def init_state(self):
        return None

    def step(self, state, x):
        return state, x
"""


def stage(*inputs: str, args: tuple[str, ...] = (), repeat: tuple[str, int] | None = None) -> Stage:
    return Stage("step", (), (), tuple(StageInput(name, "float32") for name in inputs), ("y",), args, repeat)


def write(folder, code: str) -> None:
    (folder / "model.py").write_text(code)


def build(folder, code: str, entry: str = "./model.py:build", **options: object):
    write(folder, code)
    return load_model(entry, options, folder)


def refused(folder, code: str, entry: str = "./model.py:build", **options: object) -> str:
    with pytest.raises(TraceError) as caught:
        build(folder, code, entry, **options)
    return str(caught.value)


def test_a_file_is_executed_anew_for_each_model(tmp_path):
    code = MODEL + "\nCOUNT = []\n\ndef build():\n    COUNT.append(1)\n    return Model()\n\nModel.count = COUNT\n"
    first, second = build(tmp_path, code), build(tmp_path, code)
    assert first.adapter.count == second.adapter.count == [1]
    assert first.adapter.count is not second.adapter.count


def test_unseeded_weights_are_the_same_in_each_build(tmp_path):
    code = MODEL + "\nimport random, torch\n\ndef build():\n    m = Model()\n    m.w = torch.rand(3), random.random()\n"
    code += "    return m\n"
    before = torch.get_rng_state(), random.getstate()
    first, second = build(tmp_path, code), build(tmp_path, code)
    assert torch.equal(first.adapter.w[0], second.adapter.w[0])
    assert first.adapter.w[1] == second.adapter.w[1]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def test_a_file_may_import_what_lies_beside_it(tmp_path):
    (tmp_path / "beside_it_7.py").write_text("VALUE = 3\n")
    code = (
        "from beside_it_7 import VALUE\n" + MODEL + "\ndef build():\n    m = Model()\n    m.v = VALUE\n    return m\n"
    )
    assert build(tmp_path, code).adapter.v == 3


def test_an_entry_may_be_a_class_or_take_options(tmp_path):
    code = MODEL + "\nclass Sized(Model):\n    def __init__(self, n=2):\n        self.n = n\n"
    assert build(tmp_path, code, "model.py:Sized", n=5).adapter.n == 5


def test_a_module_that_is_not_there(tmp_path):
    assert refused(tmp_path, MODEL, "./other.py:build") == (
        "CAD3401: the model's entry `./other.py:build` cannot be found\n"
        "  expected: a Python file, relative to the spec\n"
        "  got:      no file `./other.py`"
    )
    assert refused(tmp_path, MODEL, "no_such_package_x.models:build") == (
        "CAD3401: the model's entry `no_such_package_x.models:build` cannot be found\n"
        "  expected: a module that can be imported\n"
        "  got:      no module `no_such_package_x.models`\n"
        "  hint:     install the package, or name a file: `./models.py:build`"
    )


@pytest.mark.parametrize(
    ("code", "got", "at"),
    [
        ("import no_such_x\n", "ModuleNotFoundError: No module named 'no_such_x'", ":1: import no_such_x"),
        ("x = 1\ny = 1 / 0\n", "ZeroDivisionError: division by zero", ":2: y = 1 / 0"),
        ("def f(:\n", "SyntaxError: invalid syntax (model.py, line 1)", ":1"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3", ":2: sys.exit(3)"),
    ],
)  # fmt: skip
def test_a_module_that_cannot_be_imported(tmp_path, code, got, at):
    assert refused(tmp_path, code) == (
        f"CAD3402: `./model.py` cannot be imported\n  got:      {got}\n  at:       model.py{at}"
    )


def test_an_attribute_that_is_not_there(tmp_path):
    assert refused(tmp_path, "def make():\n    pass\n") == (
        "CAD3403: `./model.py:build` names nothing\n  expected: a function `build` in the module\n  got:      `make`"
    )


def test_an_entry_that_is_no_function(tmp_path):
    assert refused(tmp_path, MODEL + "\nbuild = Model()\n") == (
        "CAD3404: `./model.py:build` is not a function\n"
        "  expected: a function that builds the model anew each time\n"
        "  got:      `Model`\n"
        "  hint:     wrap what makes it in a function `build`, and name that"
    )


def test_options_that_do_not_fit(tmp_path):
    code = MODEL + "\ndef build(n, size=3):\n    return Model()\n"
    assert refused(tmp_path, code) == (
        "CAD3405: `./model.py:build` does not take these options\n"
        "  expected: `(n, size=3)`\n"
        "  got:      no option\n"
        "  at:       model.py:9\n"
        "  hint:     set `model.options.n`"
    )
    assert refused(tmp_path, code, n=1, depth=2) == (
        "CAD3405: `./model.py:build` does not take these options\n"
        "  expected: `(n, size=3)`\n"
        "  got:      `n`, `depth`\n"
        "  at:       model.py:9\n"
        "  hint:     got an unexpected keyword argument 'depth'"
    )


def test_a_build_that_raises(tmp_path):
    code = MODEL + "\ndef build():\n    raise FileNotFoundError('no checkpoint\\nin any folder')\n"
    assert refused(tmp_path, code) == (
        "CAD3406: `./model.py:build` failed\n"
        "  got:      FileNotFoundError: no checkpoint\n"
        "  at:       model.py:10: raise FileNotFoundError('no checkpoint\\nin any folder')"
    )


def test_what_is_no_streaming_model(tmp_path):
    assert refused(tmp_path, "def build():\n    return [1]\n") == (
        "CAD3407: `./model.py:build` returned no streaming model\n"
        "  expected: `init_state()`, and `step(state, ...)` or `stages`\n"
        "  got:      `list` without `init_state` and `step`\n"
        "  hint:     wrap the module in a class that passes its streaming state explicitly"
    )


STEPS = """
class Model:
    def init_state(self):
        return None

    def one(self, state, inp):
        return state, inp

    def two(self, state, a, b):
        return state, (a, b)

    def many(self, state, *inputs):
        return state, inputs

    def named(self, state, a, *, pos, i=0):
        return state, (a, pos, i)

def build(which):
    model = Model()
    model.step = getattr(model, which)
    return model
"""


@pytest.mark.parametrize(
    ("which", "inputs", "outputs"),
    [("one", "a", 1), ("one", "ab", (1, 2)), ("two", "ab", (1, 2)), ("many", "", ()), ("many", "abc", (1, 2, 3))],
)
def test_inputs_go_one_by_one_or_as_a_tuple(tmp_path, which, inputs, outputs):
    call = build(tmp_path, STEPS, which=which).stage(stage(*inputs))
    assert call("s", {}, tuple(range(1, len(inputs) + 1))) == ("s", outputs)


def test_args_go_by_name_where_the_function_takes_them(tmp_path):
    model = build(tmp_path, STEPS, which="named")
    assert model.stage(stage("a", args=("pos", "other"), repeat=("i", 4)))(0, {"pos": 7, "other": 1, "i": 3}, (1,)) == (
        0,
        (1, 7, 3),
    )
    assert build(tmp_path, STEPS, which="one").stage(stage("a", args=("pos",)))(0, {"pos": 7}, (1,)) == (0, 1)


def test_a_stage_with_other_arguments(tmp_path):
    with pytest.raises(TraceError) as caught:
        build(tmp_path, STEPS, which="two").stage(stage("a"))
    assert str(caught.value) == (
        "CAD3411: stage `step` takes other arguments than its inputs\n"
        "  expected: `(state, a)`\n"
        "  got:      `(state, a, b)`\n"
        "  at:       model.py:9\n"
        "  hint:     list the inputs of the stage in the order of the function, or take all of them as one tuple"
    )


def test_a_model_with_stages_that_lacks_one(tmp_path):
    code = "class Model:\n    stages = {'encode': len}\n    def init_state(self):\n        return {}\n"
    with pytest.raises(TraceError) as caught:
        build(tmp_path, code, "./model.py:Model").stage(stage("a"))
    assert str(caught.value) == (
        "CAD3410: the model has no stage `step`\n"
        "  expected: a callable `stages['step']`\n"
        "  got:      `encode`\n"
        "  at:       ./model.py:Model"
    )


def test_a_step_that_raises_is_told_with_its_line(tmp_path):
    code = MODEL.replace("return state, x", "return state, x[5]")
    model = build(tmp_path, code, "./model.py:Model")
    with pytest.raises(TraceError) as caught:
        model.stage(stage("x"))(None, {}, (torch.zeros(2),))
    assert str(caught.value) == (
        "CAD3007: stage `step` raised while it was traced\n"
        "  expected: the stage to run at every shape that the timeline reaches\n"
        "  got:      IndexError: index 5 is out of bounds for dimension 0 with size 2\n"
        "  at:       model.py:7: return state, x[5]\n"
        "  hint:     run the stage by hand at this shape, or correct the timeline"
    )


@pytest.mark.parametrize(
    ("code", "got"), [("return x", "`Tensor`"), ("return state, x, x", "a tuple of 3"), ("pass", "`NoneType`")]
)
def test_a_step_that_does_not_return_state_and_outputs(tmp_path, code, got):
    model = build(tmp_path, MODEL.replace("return state, x", code), "./model.py:Model")
    with pytest.raises(TraceError) as caught:
        model.stage(stage("x"))(None, {}, (torch.zeros(2),))
    assert str(caught.value) == (
        "CAD3413: stage `step` does not return its state and its outputs\n"
        "  expected: a tuple (state, outputs)\n"
        f"  got:      {got}\n"
        "  at:       model.py:6"
    )


def test_a_start_is_made_on_the_host_and_moved(tmp_path):
    (tmp_path / "m.py").write_text(
        "import torch\n"
        "class Model:\n"
        "    def init_state(self):\n"
        "        h = torch.exp(torch.arange(3.0))\n"
        "        self.where = h.device.type\n"
        "        return {'h': h, 'rows': [h, None, 4], 'own': torch.ones(2, device='meta')}\n"
        "    def reset(self, state):\n"
        "        return {**state, 'h': torch.zeros(3)}\n"
        "    def step(self, state):\n"
        "        return state, ()\n"
        "    def to(self, device):\n"
        "        pass\n"
        "def build():\n"
        "    return Model()\n"
    )
    model = load_model("m.py:build", {}, tmp_path, torch.device("meta"))
    state = model.init_state()
    assert model.adapter.where == "cpu"  # where the model's users run it: on another device `exp` has other bits
    assert state["h"].device.type == state["own"].device.type == "meta"
    assert state["rows"] == [state["h"], None, 4] and state["rows"][0] is state["h"]
    assert model.reset(state)["h"].device.type == "meta"


def test_a_model_that_cannot_be_moved(tmp_path):
    write(tmp_path, MODEL + "\n\ndef build():\n    return Model()\n")
    with pytest.raises(TraceError) as caught:
        load_model("./model.py:build", {}, tmp_path, torch.device("meta"))
    assert str(caught.value) == (
        "CAD3422: the model of `./model.py:build` cannot be moved to a device\n"
        "  expected: a method `to(device)`, as every torch module has\n"
        "  got:      `Model` without `to`\n"
        "  hint:     make the adapter a `torch.nn.Module` that holds the model, or give it `to`"
    )
    failing = (
        MODEL
        + "    def to(self, device):\n        raise RuntimeError('no room')\n\n\ndef build():\n    return Model()\n"
    )
    write(tmp_path, failing)
    with pytest.raises(TraceError) as caught:
        load_model("./model.py:build", {}, tmp_path, torch.device("meta"))
    assert str(caught.value) == (
        "CAD3406: `./model.py:build` made a model that cannot be moved to `meta`\n"
        "  got:      RuntimeError: no room\n"
        "  at:       model.py:9: raise RuntimeError('no room')"
    )
