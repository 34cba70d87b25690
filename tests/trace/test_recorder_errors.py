"""Everything that a recording refuses, by name, with the whole message."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from cadence_runtime.errors import CadenceError, ErrorList, TraceError
from cadencec.trace.recorder import collect_weights
from tests.trace.stages import trace

X = torch.linspace(-1, 1, 8)


def refused(step, state=None, *inputs, **options) -> str:
    """Return the message of the TraceError that recording raises."""
    with pytest.raises(CadenceError) as caught:
        trace(step, {} if state is None else state, *(inputs or (X.clone(),)), **options)
    assert all(isinstance(error, TraceError) for error in getattr(caught.value, "errors", [caught.value]))
    return str(caught.value)


def line_of(function, text: str) -> str:
    """Return `file:line: text` of the first line of a function that holds the text."""
    import inspect

    lines, first = inspect.getsourcelines(function)
    number = next(first + i for i, line in enumerate(lines) if text in line)
    return f"test_recorder_errors.py:{number}: {lines[number - first].strip()}"


def test_an_operand_that_no_tape_holds():
    from cadencec.trace.operands import encode_literal

    with pytest.raises(TraceError) as caught:
        encode_literal(object(), torch.device("cpu"))
    assert str(caught.value) == (
        "CAD3001: an op takes an operand that a tape cannot hold\n"
        "  expected: a tensor, number, string, dtype, device, layout or memory format\n"
        "  got:      `object`"
    )


def test_a_third_device():
    def step(s, x):
        torch.empty(3, device="meta")
        return s, [x]

    assert refused(step) == (
        "CAD3002: an op runs on a device that is not traced\n"
        "  expected: `cpu`, or `cpu` for host tensors\n"
        "  got:      `meta`\n"
        f"  at:       {line_of(step, 'meta')}\n"
        "  hint:     keep the whole stage on one device"
    )


def test_a_sparse_tensor():
    def step(s, x):
        return s, [x.to_sparse()]

    assert refused(step) == (
        "CAD3003: a tensor has no plain bytes\n"
        "  expected: a strided tensor of a plain dtype\n"
        "  got:      layout `sparse_coo`, dtype `float32`\n"
        f"  at:       {line_of(step, 'to_sparse')}\n"
        "  hint:     use dense tensors of plain dtypes in the stage"
    )


def test_another_number_of_outputs():
    assert refused(lambda s, x: (s, [x, x])) == (
        "CAD3004: stage `step` returned another number of outputs than it declares\n"
        "  expected: 1 (`y0`)\n"
        "  got:      2\n"
        "  hint:     list the outputs in flattening order"
    )


def test_a_composite_op_that_cannot_be_taken_apart():
    from cadencec.trace.hazards import composite

    assert str(composite("aten::linear", "model.py:3: y = f(x)")) == (
        "CAD3005: `aten::linear` reached the recorder as one composite op\n"
        "  expected: the ops that it is made of\n"
        "  got:      an op on tensors made under `inference_mode`\n"
        "  at:       model.py:3: y = f(x)\n"
        "  hint:     build the model and its state outside of `torch.inference_mode`"
    )


def test_a_tensor_from_nowhere():
    elsewhere = torch.ones(2, 4)

    def step(s, x):
        return s, [x + elsewhere.view(-1)]

    assert refused(step) == (
        "CAD3006: a tensor comes from nowhere; `aten::view` is the first to use it\n"
        "  expected: an input, a state leaf, a parameter, a buffer, or the result of a recorded op\n"
        "  got:      float32 [2, 4]\n"
        f"  at:       {line_of(step, 'elsewhere')}\n"
        "  hint:     register it as a buffer, declare it as state, or compute it with torch ops in the stage"
    )


def test_an_output_from_nowhere():
    elsewhere = torch.ones(2)
    message = refused(lambda s, x: (s, [elsewhere]))
    assert message.startswith("CAD3006: a tensor comes from nowhere; `the value of `y0`` is the first to use it")


def test_a_stage_that_raises():
    def step(s, x):
        return s, [torch.cat([x, x.view(2, 4)])]

    assert refused(step) == (
        "CAD3007: stage `step` raised while it was traced\n"
        "  expected: the stage to run at every shape that the timeline reaches\n"
        "  got:      RuntimeError: Tensors must have same number of dimensions: got 1 and 2\n"
        f"  at:       {line_of(step, 'cat')}\n"
        "  hint:     run the stage by hand at this shape, or correct the timeline"
    )


def test_a_branch_on_data():
    def step(s, x):
        if x.abs().mean() + s["h"].sum() > 0.5:
            x = x * 2
        return s, [x]

    assert refused(step, {"h": torch.zeros(2)}) == (
        "CAD3101: `aten::_local_scalar_dense` hands data to the host (an `if`, `.item()`, `int()`): "
        "Python may go another way next time\n"
        "  expected: a value that depends on no input, no state and no random draw\n"
        "  got:      a value that depends on `h`, `x0`\n"
        f"  at:       {line_of(step, 'if x.abs')}\n"
        "  hint:     choose with `torch.where`, or declare the value as a literal input or a counter"
    )


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: float(x[0]),
        lambda x: torch.equal(x, x),
        lambda x: torch.allclose(x, x),
        lambda x: bool((x > 0).all()),
        lambda x: x.view(2, 4)[:, :2].inverse(),
        lambda x: __import__("numpy").asarray(x),
        lambda x: __import__("pickle").dumps(x),
        repr,
    ],
)
def test_ways_to_read_data_on_the_host(read):
    def step(s, x):
        read(x)
        return s, [x]

    message = refused(step)
    assert message.startswith("CAD3101") and "`x0`" in message and "test_recorder_errors.py" in message


def test_a_host_read_in_scripted_code_names_the_line_of_the_call():
    class Gate(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if bool(x.mean() > 0):
                return x
            return -x

    gate = torch.jit.script(Gate())

    def step(s, x):
        return s, [gate(x)]

    assert f"at:       {line_of(step, 'gate(x)')}" in refused(step, model=gate)


def test_an_error_that_the_model_swallows_is_raised_all_the_same():
    def step(s, x):
        try:
            return s, [x if x.sum() > 0 else -x]
        except Exception:
            return s, [x]

    assert refused(step).startswith("CAD3101")


def test_a_generator_of_the_models_own():
    generator = torch.Generator().manual_seed(0)

    def step(s, x):
        return s, [x + torch.randn(8, generator=generator)]

    assert refused(step) == (
        "CAD3102: `aten::randn.generator` draws from a generator of the model's own\n"
        "  expected: the default generator, which a session seeds\n"
        "  got:      `generator=` with another generator\n"
        f"  at:       {line_of(step, 'generator=')}\n"
        "  hint:     draw from the default generator, or declare the noise as an input"
    )


def test_a_stage_that_seeds():
    def step(s, x):
        torch.manual_seed(0)
        return s, [x + torch.randn(8)]

    assert refused(step) == (
        "CAD3103: the stage sets the random generator itself\n"
        "  expected: a generator that only random draws advance\n"
        "  got:      `torch.manual_seed`, `set_rng_state` or `fork_rng` inside the stage\n"
        f"  at:       before {line_of(step, 'randn')}\n"
        "  hint:     seed outside of the stage, or declare the noise as an input"
    )


def test_a_stage_that_seeds_at_its_end():
    def step(s, x):
        y = x + torch.randn(8)
        torch.manual_seed(0)
        return s, [y]

    assert refused(step).startswith("CAD3103")


def test_a_shape_that_depends_on_data():
    def step(s, x):
        return s, [x[x > 0]]

    assert refused(step) == (
        "CAD3104: the shape of what `aten::index.Tensor` returns depends on data\n"
        "  expected: a shape that follows from the shapes of inputs and state\n"
        "  got:      a shape that depends on `x0`\n"
        f"  at:       {line_of(step, 'x > 0')}\n"
        "  hint:     keep the shape and mask the values: `torch.where`, `masked_fill`"
    )


@pytest.mark.parametrize("pick", [lambda x: x.nonzero(), lambda x: x.masked_select(x > 0), lambda x: x.unique()])
def test_other_shapes_that_depend_on_data(pick):
    assert refused(lambda s, x: (s, [pick(x)])).startswith("CAD3104")


def test_dropout_in_training_mode():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))

    def step(s, x):
        return s, [model(x)]

    assert refused(step, model=model) == (
        "CAD3105: dropout is in training mode: `1`\n"
        "  expected: dropout that does nothing\n"
        "  got:      a draw by `aten::bernoulli_.float`\n"
        f"  at:       {line_of(step, 'model(x)')}\n"
        "  hint:     call `model.eval()` in `build`"
    )


def test_dropout_elsewhere():
    scripted = torch.jit.script(nn.Sequential(nn.Dropout(0.5)))
    assert refused(lambda s, x: (s, [F.dropout(x)])).startswith("CAD3105: dropout is in training mode\n")
    assert refused(lambda s, x: (s, [scripted(x)]), model=scripted).startswith(
        "CAD3105: dropout is in training mode: `0`"
    )
    assert refused(lambda s, x: (s, [torch.native_dropout(x, 0.5, True)[0]])).startswith("CAD3105")


def test_batch_norm_in_training_mode():
    model = nn.Sequential(nn.BatchNorm1d(4))

    def step(s, x):
        return s, [model(x.view(2, 4))]

    assert refused(step, model=model) == (
        "CAD3106: batch-norm is in training mode: `0`\n"
        "  expected: running statistics that stay as they are\n"
        "  got:      `aten::native_batch_norm` updates them\n"
        f"  at:       {line_of(step, 'model(')}\n"
        "  hint:     call `model.eval()` in `build`"
    )


def test_changing_data_on_the_host():
    from cadencec.trace.hazards import moved_to_host

    assert str(moved_to_host(["`x`"], "model.py:3: x.cpu()")) == (
        "CAD3107: the stage moves changing data to the host\n"
        "  expected: all that changes from run to run to stay on the traced device\n"
        "  got:      a host tensor that depends on `x`\n"
        "  at:       model.py:3: x.cpu()\n"
        "  hint:     compute it on the device of its inputs"
    )


def test_a_precision_flag_switched_inside():
    def step(s, x):
        torch.backends.cudnn.deterministic = True
        try:
            return s, [x + 1]
        finally:
            torch.backends.cudnn.deterministic = False

    assert refused(step) == (
        "CAD3108: the stage switches `cudnn.deterministic` while it runs\n"
        "  expected: `False` throughout\n"
        "  got:      `True`\n"
        f"  at:       {line_of(step, 'x + 1')}\n"
        "  hint:     set it once, in the spec's `numerics`"
    )


def test_a_flag_switched_after_the_last_op():
    def step(s, x):
        y = x + 1
        torch.set_default_dtype(torch.float64)
        return s, [y]

    try:
        assert refused(step).startswith("CAD3108: the stage switches `default_dtype` while it runs")
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_module_that_initialises_itself_in_its_first_step():
    lazy = nn.LazyLinear(4)
    message = refused(lambda s, x: (s, [lazy(x)]), model=lazy)
    assert message.startswith("CAD3006") and "a parameter of a lazy module" in message


def test_buffers_that_trade_places():
    model = Holder()

    def step(s, x):
        model.mean.copy_(x)
        y = x + model.last
        model.mean, model.last = model.last, model.mean
        return s, [y]

    assert refused(step, model=model).startswith("CAD3202: undeclared state: attribute `last`")


def test_random_numbers_of_others():
    def step(s, x):
        return s, [x + np.random.rand()]

    assert refused(step) == (
        "CAD3109: the stage draws from numpy's random numbers\n"
        "  expected: draws by torch, from the default generator\n"
        "  got:      a generator of numpy that has advanced\n"
        "  hint:     draw with torch, or declare the noise as an input"
    )
    assert refused(lambda s, x: (s, [x * random.random()])).startswith("CAD3109: the stage draws from Python's")  # noqa: S311


class Holder(nn.Module):
    """Keeps things in attributes, as a test tells it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("last", torch.zeros(8))
        self.inner = nn.Identity()
        self.inner.h = torch.zeros(8)
        self.count = 0
        self.notes = {"seen": [1]}


def test_buffers_changed_in_place():
    model = Holder()

    def step(s, x):
        model.mean.mul_(0.9).add_(x)
        y = model.mean + model.last
        model.last.copy_(x)
        return s, [y]

    with pytest.raises(ErrorList) as caught:
        trace(step, {}, X.clone(), model=model)
    assert str(caught.value.errors[0]) == (
        "CAD3201: undeclared state: `mean` is read before the step writes it, in place by `aten::mul_.Tensor`\n"
        "  expected: a tensor that no step changes, or one that each step writes before it reads it\n"
        "  got:      32 bytes that outlive the step\n"
        f"  at:       {line_of(step, 'mul_').rpartition(': ')[0]}\n"
        "  hint:     declare it as a leaf of the state: return it from `init_state` and `step`"
    )
    assert "`last`" in str(caught.value.errors[1])


def test_a_buffer_that_is_written_in_part_before_it_is_read():
    model = Holder()

    def step(s, x):
        model.mean[:7] = x[:7]
        return s, [model.mean + 0]

    assert refused(step, model=model).startswith("CAD3201: undeclared state: `mean`")


def test_a_plain_attribute_changed_in_place():
    model = Holder()

    def step(s, x):
        model.inner.h += x
        return s, [model.inner.h * 1]

    assert refused(step, model=model).startswith("CAD3201: undeclared state: `inner.h`")


def test_an_attribute_bound_to_changing_data():
    model = Holder()

    def step(s, x):
        model.inner.h = torch.tanh(model.inner.h + x)
        return s, [model.inner.h * 1]

    assert refused(step, model=model) == (
        "CAD3202: undeclared state: attribute `inner.h` is bound to a tensor that outlives the step\n"
        "  expected: a constant, or a tensor that the step returns in its state\n"
        "  got:      float32 [8] -> float32 [8], which changes from run to run\n"
        f"  at:       {line_of(step, 'tanh').rpartition(': ')[0]}\n"
        "  hint:     declare it as a leaf of the state: return it from `init_state` and `step`"
    )


def test_an_attribute_whose_data_is_replaced():
    model = Holder()

    def step(s, x):
        model.mean.data = torch.tanh(model.mean + x)
        return s, [model.mean * 1]

    assert refused(step, model=model).startswith("CAD3202: undeclared state: attribute `mean`")


def test_an_array_that_changes():
    model = Holder()
    model.notes["table"] = np.zeros(3)

    def step(s, x):
        model.notes["table"][0] += 1
        return s, [x + 1]

    message = refused(step, model=model)
    assert message.startswith("CAD3203: undeclared state: attribute `notes.table` changes on every run")


def test_a_list_that_keeps_tensors():
    model = Holder()

    def step(s, x):
        model.notes["seen"].append(x * 2)
        return s, [x + 1]

    assert refused(step, model=model).startswith("CAD3202: undeclared state: attribute `notes.seen.1`")


def test_a_counter_in_an_attribute():
    model = Holder()

    def step(s, x):
        model.count += 1
        return s, [x + 1]

    assert refused(step, model=model) == (
        "CAD3203: undeclared state: attribute `count` changes on every run\n"
        "  expected: an attribute that stays, or state that is declared as a leaf\n"
        "  got:      int 0 -> int 1 -> int 2\n"
        "  hint:     return it in the state: a tensor, or an int that a counter of the spec declares and bounds"
    )


def test_a_counter_in_scripted_code():
    class Counting(nn.Module):
        count: int

        def __init__(self):
            super().__init__()
            self.count = 0

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            return x + 1

    model = torch.jit.script(Counting())
    message = refused(lambda s, x: (s, [model(x)]), model=model)
    assert message.startswith("CAD3203: undeclared state: attribute `count` changes on every run")


def test_a_list_that_grows_with_each_run():
    model = Holder()

    def step(s, x):
        model.notes["seen"].append(len(model.notes["seen"]))
        return s, [x + 1]

    assert refused(step, model=model).startswith("CAD3203: undeclared state: attribute `notes.seen.2`")


def test_a_flag_that_makes_the_next_run_go_another_way():
    model = Holder()

    def step(s, x):
        y = x + 1 if model.count == 0 else x * 2
        model.count = 7
        return s, [y]

    assert refused(step, model=model) == (
        "CAD3204: undeclared state: attribute `count` makes the next run go another way\n"
        "  expected: the same ops and the same bits from a second run on the same input and state\n"
        "  got:      int 0 -> int 7; `aten::add.Tensor` became `aten::mul.Tensor`\n"
        "  hint:     return it in the state, or set it when the model is built"
    )


def test_a_constant_attribute_that_makes_other_values():
    model = Holder()

    def step(s, x):
        y = x + model.inner.h
        model.inner.h = torch.ones(8)
        return s, [y]

    message = refused(step, model=model)
    assert message.startswith("CAD3204") and "other values" in message


def test_a_tensor_that_an_earlier_run_left_behind():
    kept: list[Tensor] = []

    def step(s, x):
        y = x + (kept[-1] if kept else 0)
        kept.append(y)
        return s, [y * 1]

    weights = collect_weights(None)
    trace(step, {}, X.clone(), weights=weights)
    assert refused(step, weights=weights) == (
        "CAD3205: the stage reads a tensor that an earlier run left behind "
        f"(`aten::add.Tensor` of stage `step`, {line_of(step, 'y = x').rpartition(': ')[0]})\n"
        "  expected: state that is declared as a leaf\n"
        "  got:      float32 [8] kept by the model\n"
        f"  at:       {line_of(step, 'y = x')}\n"
        "  hint:     return it in the state, or compute it anew in each step"
    )


def test_scratch_that_another_stage_reads():
    model = Holder()

    def writes(s, x):
        model.mean.copy_(x)
        return s, [model.mean * 2]

    def reads(s, x):
        return s, [x + model.mean]

    weights = collect_weights(model)
    trace(writes, {}, X.clone(), weights=weights)
    assert refused(reads, weights=weights) == (
        "CAD3206: undeclared state: `mean` is overwritten in stage `step` and read as it stands in stage `step`\n"
        "  expected: a buffer that every stage writes before it reads it, or none writes\n"
        "  got:      a value that passes from one step to another\n"
        "  hint:     declare it as a leaf of the state"
    )


def test_what_is_watched_is_let_go_after_an_error():
    methods = [torch.Tensor.__deepcopy__, torch.Tensor.tolist, torch.Tensor.numpy, torch.inference_mode.__enter__]
    refused(lambda s, x: (s, [x.tolist()]))
    assert methods == [
        torch.Tensor.__deepcopy__,
        torch.Tensor.tolist,
        torch.Tensor.numpy,
        torch.inference_mode.__enter__,
    ]
    assert torch.equal(copy.deepcopy(X), X)
