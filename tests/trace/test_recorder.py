"""What a recording holds, and that its replay is the stage: aliasing, in-place writes, strides, literals, draws."""

import copy
import logging
import math
import threading

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from cadence_runtime.format.tape import Literal, View
from cadencec.passes.pipeline import optimise
from cadencec.trace.attributes import walk
from cadencec.trace.interpret import interpret
from cadencec.trace.recorder import collect_weights
from tests.trace.stages import check_replay, other, trace

X = torch.linspace(-1, 1, 8)


def test_the_docstring_example():
    def step(s, x):
        y = x + s["state"]
        return {"state": torch.cat([s["state"][1:], x[:1]])}, [y]

    tape = check_replay(step, {"state": torch.zeros(4)}, torch.ones(4)).tape
    assert [(op.name, op.reads, op.writes) for op in tape.ops if op.writes] == [
        ("aten::add.Tensor", (0, 1), (2,)),
        ("aten::cat", (0, 1), (3,)),
    ]
    assert [storage.kind for storage in tape.storages] == ["leaf", "input", "scratch", "scratch"]
    assert tape.state_out[0].value == View(3, "float32", (4,), (1,), 0)


def test_an_op_that_only_makes_a_view_reads_and_writes_nothing():
    def step(s, x):
        return s, [x.view(2, 4).t()[1:].expand(2, 3, 2) if False else x.view(2, 4).t()[1:]]

    recording = check_replay(step, {}, X)
    assert all(op.reads == op.writes == () for op in recording.tape.ops)
    assert recording.tape.outputs[0].value == View(0, "float32", (3, 2), (1, 4), 1)


def test_split_and_other_ops_that_alias_without_saying_so():
    def step(s, x):
        a, b = torch.ops.aten.unsafe_split(x.clone(), 4)
        a.add_(b)
        return s, [torch.cat([a, b]), a]

    check_replay(step, {}, X, outputs=2)


def test_an_op_that_returns_its_input():
    def step(s, x):
        y = x.contiguous().to(torch.float32).reshape(8)
        y.mul_(2)
        return s, [x, y]

    recording = check_replay(step, {}, X, outputs=2)
    assert recording.tape.outputs[0].value == recording.tape.outputs[1].value


def test_writes_through_views_are_writes_of_the_storage():
    def step(s, x):
        buffer = s["ring"]
        buffer[2:4] = x[:2]
        buffer.view(4, 2).t()[0].add_(1)
        buffer.view(-1)[7:].fill_(3)
        return s, [buffer.sum()]

    tape = check_replay(step, {"ring": X.clone()}, X).tape
    assert tape.state_out[0].value == tape.state_in[0].value


def test_state_that_is_the_input_object():
    def step(s, x):
        return {"prev": x}, [x - s["prev"]]

    tape = check_replay(step, {"prev": X}, X).tape
    assert tape.state_out[0].value == tape.inputs[0].value


def test_tied_leaves_share_a_storage():
    leaf = X.clone()

    def step(s, x):
        s["a"].add_(x)
        return s, [s["b"] * 1]

    weights = collect_weights(None)
    recording = trace(step, {"a": leaf, "b": leaf[2:]}, X.clone(), weights=weights)
    a, b = (binding.value for binding in recording.tape.state_in)
    assert isinstance(a, View) and isinstance(b, View)
    assert a.storage == b.storage and b.offset == 2
    assert recording.tape.storages[a.storage].name == "a"
    assert torch.equal(recording.outputs[0], (X + X)[2:])


def test_permuted_state_is_computed_before_any_leaf_is_stored():
    def step(s, x):
        return {"a": s["b"], "b": s["a"]}, [x + s["a"]]

    tape = check_replay(step, {"a": X, "b": X + 1}, X).tape
    assert tape.state_out[0].value == tape.state_in[1].value
    assert tape.state_out[1].value == tape.state_in[0].value


@pytest.mark.parametrize(
    "leaf",
    [
        torch.zeros(4, 6).t(),
        torch.zeros(4, 12)[:, ::2],
        torch.zeros(4, 8)[:, 2:6],
        torch.zeros(3, 0),
        torch.zeros(()),
        torch.arange(4.0).expand(3, 4),
        torch.arange(10.0).unfold(0, 4, 2),
    ],
    ids=["transposed", "strided", "sliced", "empty", "scalar", "expanded", "unfolded"],
)
def test_strides_of_state_are_kept(leaf: Tensor):
    def step(s, x):
        return {"h": s["h"] * 2 + x}, [s["h"].sum()]

    tape = check_replay(step, {"h": leaf}, torch.ones(())).tape
    view = tape.state_in[0].value
    assert isinstance(view, View)
    assert view.strides == leaf.stride() and view.sizes == tuple(leaf.shape)


def test_absent_leaves_and_ints_are_literals():
    def step(s, x):
        return {"conv": x.new_zeros(2), "n": s["n"] + 1, "gone": None}, [x, None, 3]

    recording = trace(step, {"conv": None, "n": 3, "gone": X.clone()}, X.clone(), outputs=3)
    tape = recording.tape
    assert [binding.value for binding in tape.state_in[:2]] == [Literal("none", ""), Literal("int", "3")]
    assert [binding.value for binding in tape.state_out[1:]] == [Literal("int", "4"), Literal("none", "")]
    assert [binding.value for binding in tape.outputs[1:]] == [Literal("none", ""), Literal("int", "3")]


@pytest.mark.parametrize("value", [0.1, -0.0, math.inf, math.nan, 1e-310, 0.1 + 0.2], ids=repr)
def test_float_literals_keep_every_bit(value: float):
    recording = check_replay(lambda s, x: (s, [x * value]), {}, X.double())
    literal = recording.tape.ops[-1].args[1]
    assert isinstance(literal, Literal)
    assert np.float64(value).tobytes() == bytes.fromhex(literal.text)[::-1]


def test_mixed_dtypes_and_lazy_conjugation():
    def step(s, x):
        z = torch.complex(x, x + 1).conj() * s["pole"]
        flags = (z.real > 0) | s["flag"]
        return {"pole": z.conj(), "flag": flags}, [torch.view_as_real(z.resolve_conj()), z.imag, z.to(torch.complex128)]

    check_replay(
        step, {"pole": torch.ones(8, dtype=torch.complex64), "flag": torch.zeros(8, dtype=torch.bool)}, X, outputs=3
    )


def test_bfloat16_and_small_ints():
    def step(s, x):
        h = (s["h"] + x.to(torch.bfloat16)).relu()
        return {"h": h, "n": s["n"] + 200}, [h.float() + s["n"]]

    check_replay(step, {"h": torch.zeros(8, dtype=torch.bfloat16), "n": torch.zeros(1, dtype=torch.uint8)}, X)


def test_draws_are_marked_and_follow_the_default_generator():
    def step(s, x):
        noise = torch.randn_like(x)
        torch.rand(3)
        return s, [x + noise, torch.bernoulli(torch.full((4,), 0.5))]

    recording = check_replay(step, {}, X, outputs=2)
    assert recording.tape.draws
    assert [op.name for op in recording.tape.ops if op.draws] == ["aten::randn_like", "aten::rand", "aten::bernoulli"]


def test_attention_without_dropout_draws_nothing():
    def step(s, x):
        q = x.view(1, 1, 2, 4)
        return s, [F.scaled_dot_product_attention(q, q, q)]

    assert not check_replay(step, {}, X).tape.draws


def test_weights_are_named_and_tied_ones_named_once():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(4, 8)
            self.head = nn.Linear(8, 4, bias=False)
            self.head.weight = self.embedding.weight
            self.register_buffer("scale", torch.tensor(2.0), persistent=False)
            self.window = torch.hann_window(8)

    model = Model()

    def step(s, x):
        return s, [model.head(x * model.window) * model.scale + model.embedding(torch.tensor([1]))[0, :4]]

    recording = check_replay(step, {}, X, model=model)
    names = sorted(storage.name for storage in recording.tape.storages if storage.kind == "weight")
    assert names == ["embedding.weight", "scale", "window"]


def test_modules_in_attributes_of_a_plain_adapter():
    class Adapter:
        def __init__(self):
            self.parts = {"front": nn.Linear(8, 8), "back": [nn.Linear(8, 8)]}

    adapter = Adapter()
    weights = collect_weights(adapter)
    assert list(weights.tensors) == [
        f"parts.{part}.{name}" for part in ("front", "back.0") for name in ("weight", "bias")
    ]


def test_a_flattened_lstm_names_its_parts():
    flat = torch.arange(12.0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(flat[:4])
            self.b = nn.Parameter(flat[4:])

    model = Model()
    recording = check_replay(lambda s, x: (s, [x * model.b + model.a.sum()]), {}, X, model=model)
    weights = [storage for storage in recording.tape.storages if storage.kind == "weight"]
    assert [(weight.name, weight.size_bytes) for weight in weights] == [("b", 32), ("a", 16)]


def test_a_parameter_that_is_no_plain_run_of_bytes_is_a_constant_from_weights():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.arange(16.0).view(2, 8).t())

    model = Model()
    recording = check_replay(lambda s, x: (s, [x @ model.w]), {}, X, model=model)
    assert len(recording.derived) == len(recording.constants) == 1


def test_scripted_modules():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Linear(8, 8)

        def forward(self, x: Tensor, h: Tensor) -> Tensor:
            if x.size(0) > 4:
                h = torch.tanh(self.f(x) + h)
            a, b = h.chunk(2)
            return torch.cat([b, a])

    gate = torch.jit.script(Gate())
    recording = check_replay(lambda s, x: ({"h": gate(x, s["h"])}, [x]), {"h": X}, X, model=gate)
    assert {op.source.rpartition(":")[0] for op in recording.tape.ops} == {"test_recorder.py"}


@pytest.mark.parametrize("freeze", [False, True])
def test_constants_in_traced_and_frozen_code(freeze: bool):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.f(x) * torch.tensor(2.5) + torch.arange(8)

    module = torch.jit.trace(Table().eval(), X, check_trace=False)
    module = torch.jit.freeze(module) if freeze else module
    check_replay(lambda s, x: (s, [module(x)]), {}, X, model=module)


def test_inference_mode_inside_the_model_is_neutral():
    linear = nn.Linear(8, 8)

    @torch.inference_mode()
    def step(s, x):
        with torch.inference_mode():
            return s, [F.linear(x.view(2, 4).t(), linear.weight[:3, :2]).sum(1)]

    recording = check_replay(step, {}, X, model=linear)
    assert "aten::linear" not in {op.name for op in recording.tape.ops}
    assert not recording.outputs[0].is_inference()
    assert torch.inference_mode.__enter__.__module__ == "torch.autograd.grad_mode"


def test_tensors_made_under_inference_mode_are_taken_apart():
    with torch.inference_mode():
        linear = nn.Linear(8, 8)
    recording = trace(lambda s, x: (s, [linear(x)]), {}, X.clone(), model=linear)
    assert [op.name for op in recording.tape.ops if op.writes] == ["aten::addmm"]


def test_autocast_is_recorded_as_casts():
    linear = nn.Linear(8, 8)

    def step(s, x):
        with torch.autocast("cpu", torch.bfloat16):
            return s, [linear(x)]

    recording = check_replay(step, {}, X.view(1, 8), model=linear)
    assert "aten::_to_copy" in {op.name for op in recording.tape.ops}


def test_numerics_are_reported():
    recording = trace(lambda s, x: (s, [x + 1]), {}, X.clone())
    assert ("default_dtype", "float32") in recording.numerics
    with torch.autocast("cpu", torch.bfloat16):
        recording = trace(lambda s, x: (s, [x + 1]), {}, X.clone())
    assert ("autocast.cpu", "bfloat16") in recording.numerics


def test_constants_made_in_the_step_are_read_on_the_host():
    def step(s, x):
        window = torch.hann_window(8) + 1
        if window.min() > 0.5 and torch.equal(window, window) and torch.allclose(window, window):
            x = x / window
        return s, [x * torch.tensor([2.0]).item() + np.float32(torch.ones(2).numpy()[0]) + torch.ones(2).tolist()[1]]

    recording = check_replay(step, {}, X)
    assert not {"aten::_local_scalar_dense", "aten::equal"} & {op.name for op in recording.tape.ops}


def test_istft_checks_its_overlap_on_constants():
    def step(s, x):
        spec = torch.complex(x.view(5, 4), s["im"])
        return s, [torch.istft(spec, 8, 2, window=torch.hann_window(8), center=True)]

    check_replay(step, {"im": torch.zeros(5, 4)}, torch.linspace(-1, 1, 20))


def test_tensors_lifted_from_python_are_constants_even_when_written():
    def step(s, x):
        table = torch.tensor([1.0, 2.0])
        table[0] = 5
        total = torch.from_numpy(np.ones(2, np.float32)) + table
        total += x[:2]
        return s, [total, torch.as_tensor([3.0]) + x[0]]

    check_replay(step, {}, X, outputs=2)


def test_deepcopy_is_made_of_ops_and_keeps_sharing():
    def step(s, x):
        held = [x * 1, None]
        held[1] = held[0][2:].t() if held[0].dim() == 2 else held[0][2:]
        copied = copy.deepcopy(held)
        copied[1].add_(1)
        return {"h": copy.deepcopy(s["h"])}, [copied[0], held[0]]

    check_replay(step, {"h": torch.zeros(4, 8)[:, ::2]}, X, outputs=2)
    assert torch.Tensor.__deepcopy__.__module__ == "torch._tensor"


def test_zeros_like_an_input_is_a_constant():
    def step(s, x):
        y = torch.zeros_like(x)
        if y.sum() == 0:
            y = y + x
        return s, [y]

    check_replay(step, {}, X)


def test_a_mask_that_is_constant_may_decide_a_shape():
    def step(s, x):
        keep = torch.arange(8) % 2 == 0
        return s, [x[keep], x.repeat_interleave(torch.tensor([1, 2] * 4), output_size=12)]

    check_replay(step, {}, X, outputs=2)


def test_buffers_written_before_they_are_read_are_scratch():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("work", torch.zeros(4, 8))

    model = Model()

    def step(s, x):
        model.work[:2] = x
        model.work[2:, :5] = 1
        return s, [model.work[:2] * 2, model.work[1:, :5].clone()]

    recording = check_replay(step, {}, X, model=model, outputs=2)
    assert "weight" not in {storage.kind for storage in recording.tape.storages}


def test_helpers_made_on_first_use_are_constants():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = None
            self.built = False

        def step(self, s, x):
            if self.table is None:
                self.table = torch.arange(8.0) * 2
                self.built = True
            return s, [x + self.table]

    model = Model()
    weights = collect_weights(model)
    programs = [optimise(trace(model.step, {}, X.clone(), weights=weights), weights) for _ in range(3)]
    assert programs[0].tape == programs[1].tape == programs[2].tape
    outputs, _ = interpret(programs[0].tape, {"x0": X}, {}, weights.tensor, programs[0].constants.__getitem__)
    assert torch.equal(outputs[0], X + torch.arange(8.0) * 2)


def test_helpers_kept_in_a_closure_are_constants():
    cache: dict[int, Tensor] = {}

    def step(s, x):
        if len(x) not in cache:
            cache[len(x)] = torch.arange(float(len(x)))
        return s, [x + cache[len(x)]]

    weights = collect_weights(None)
    tapes = [optimise(trace(step, {}, X.clone(), weights=weights), weights).tape for _ in range(2)]
    assert tapes[0] == tapes[1]


def test_a_second_run_restores_what_the_first_changed():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.helper = None

        def step(self, s, x):
            self.helper = torch.ones(1) if self.helper is None else self.helper
            s["n"].add_(1)
            x.mul_(2)
            return s, [x + self.helper + torch.rand(1)]

    torch.manual_seed(3)
    state, x = {"n": torch.zeros(1)}, X.clone()
    recording = trace(Model().step, state, x, model=None)
    model = Model()
    torch.manual_seed(3)
    state, x = {"n": torch.zeros(1)}, X.clone()
    recording = trace(model.step, state, x, model=model)
    after = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(recording.outputs[0], X * 2 + 1 + torch.rand(1))
    assert torch.equal(state["n"], torch.ones(1))
    assert torch.equal(after, torch.rand(1))


def test_state_installed_in_an_attribute_is_declared_when_it_is_returned():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Linear(8, 8)
            self.h = None

        def forward(self, x):
            self.h = torch.tanh(self.f(x) + self.h)
            return self.h * 2

        def step(self, s, x):
            self.h = s["h"]
            y = self(x)
            return {"h": self.h}, [y]

    model = Model()
    weights = collect_weights(model)
    state = {"h": torch.zeros(8)}
    for _ in range(3):
        recording = trace(model.step, state, X.clone(), weights=weights)
        state = {"h": recording.state["h"]}
    check_replay(model.step, {"h": torch.zeros(8)}, X, model=model)


def test_sources_are_lines_of_the_model_and_only_on_request():
    recording = trace(lambda s, x: (s, [F.relu(x)]), {}, X.clone())
    assert recording.tape.ops[0].source.startswith("test_recorder.py:")
    recording = trace(lambda s, x: (s, [F.relu(x)]), {}, X.clone(), template=())
    assert recording.tape.ops[0].source == ""


def test_recordings_of_the_same_stage_are_equal():
    def step(s, x):
        return {"h": torch.cat([s["h"][4:], x[:4]])}, [x * torch.tensor(2.0)]

    tapes = [trace(step, {"h": torch.zeros(8)}, other(X, seed)).tape for seed in (1, 2)]
    assert tapes[0] == tapes[1]


def test_memory_that_grows():
    def step(s, x):
        out = torch.empty(0)
        torch.cat([x, x], out=out)
        grown = x[:2].clone().resize_(4)
        grown[2:] = 1
        return s, [out, grown]

    recording = check_replay(step, {}, X, outputs=2)
    assert {storage.size_bytes for storage in recording.tape.storages} >= {64, 16}


def test_what_a_model_holds_beside_tensors_does_not_matter():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.log = logging.getLogger("model")
            self.lock = threading.Lock()
            self.vocabulary = {str(i): i for i in range(10_000)}
            self.me = self
            self.tags = {"a", "b"}
            self.f = nn.Linear(8, 8)

        def step(self, s, x):
            self.log.isEnabledFor(10)
            self.f.weight.data = self.f.weight.data.clone()
            return s, [self.f(x)]

    model = Model()
    assert len(walk(model)) < 40
    check_replay(model.step, {}, X, model=model)


def test_weights_are_not_mixed_up_with_what_takes_their_place():
    model = nn.Module()
    model.table = torch.ones(8, 2).t()
    weights = collect_weights(model)
    model.table = None

    def step(s, x):
        return s, [torch.stack([x * i for i in range(2)]).sum(0) + torch.empty(8, 2).fill_(1).t()[0]]

    for _ in range(3):
        tape = trace(step, {}, X.clone(), weights=weights).tape
        assert {storage.kind for storage in tape.storages} == {"input", "scratch"}


@pytest.mark.parametrize(
    "build",
    [
        lambda: torch.compile(nn.Linear(8, 8), backend="eager"),
        lambda: nn.Sequential(nn.Unflatten(0, (1, 2, 4)), nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)).eval(),
        lambda: nn.Sequential(nn.Unflatten(0, (2, 4)), nn.GRU(4, 4, 2)),
    ],
    ids=["compiled", "fused transformer layer", "recurrent"],
)
def test_modules_that_take_routes_of_their_own(build):
    module = build()

    def step(s, x):
        y = module(x)
        return s, [y[0] if isinstance(y, tuple) else y]

    check_replay(step, {}, X, model=module)


def test_autograd_inside_a_stage():
    linear = nn.Linear(8, 8)

    def step(s, x):
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad((linear(y) ** 2).sum(), y)
        return s, [slope]

    check_replay(step, {}, X, model=linear)


def test_functions_over_a_batch():
    check_replay(lambda s, x: (s, [torch.func.vmap(lambda a: a * 2 + a.sum())(x.view(2, 4))]), {}, X)
