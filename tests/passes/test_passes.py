"""What each pass does on stages made for it; that bits stay is tested on the cases and on random stages."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from cadence_runtime.format.tape import Binding, Literal, Op, Storage, Tape, View
from cadencec.passes import dead, fills, fold
from cadencec.passes.pipeline import ALL, PASSES, optimise
from cadencec.passes.program import Context, Program, compact
from cadencec.trace.listing import format_tape
from cadencec.trace.recorder import collect_weights
from tests.trace.stages import check_replay, trace

X = torch.linspace(-1, 1, 8)
CONTEXT = Context(torch.device("cpu"), {}.__getitem__)


def names(step, state, *inputs, model=None, switches=ALL, **options) -> list[str]:
    """Return the ops that are left of a stage, having checked that it still replays."""
    recording = check_replay(step, state, *inputs, model=model, **options)
    return [op.name for op in optimise(recording, collect_weights(model), switches).tape.ops]


def test_folding_runs_constant_ops_once():
    def step(s, x):
        window = torch.hann_window(8) ** 2
        return s, [x * window / window.sum()]

    assert names(step, {}, X) == ["aten::mul.Tensor", "aten::div.Tensor"]


def test_folding_of_weights_says_that_it_did():
    model = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
    weights = collect_weights(model)
    program = optimise(trace(lambda s, x: (s, [model(x)]), {}, X.clone(), model=model, weights=weights), weights)
    assert [op.name for op in program.tape.ops] == ["aten::addmm"]
    assert len(program.constants) == len(program.derived) == 1
    assert [s.name for s in program.tape.storages if s.kind == "weight"] == ["bias"]


def test_a_constant_that_changes_is_one_constant_for_each_version():
    def step(s, x):
        c = torch.arange(8.0)
        y = x + c
        c += 1
        return s, [y, x + c]

    recording = check_replay(step, {}, X, outputs=2)
    program = optimise(recording, collect_weights(None))
    assert [op.name for op in program.tape.ops] == ["aten::add.Tensor"] * 2
    assert len(program.constants) == 2
    assert program.derived == frozenset()


def test_a_constant_that_gets_data_keeps_its_writers():
    def step(s, x):
        ola = torch.zeros(10)
        ones = ola + 1
        ola[1:9] += x
        return s, [ola, ones * x[0]]

    assert names(step, {}, X, outputs=2) == ["aten::zero_", "aten::add_.Tensor", "aten::mul.Tensor"]


def test_an_op_with_two_results_of_which_one_gets_data():
    def step(s, x):
        values, indices = torch.arange(8.0).sort(descending=True)
        values += x
        return s, [values, indices + 0]

    assert names(step, {}, X, outputs=2) == ["aten::sort", "aten::add_.Tensor"]


def test_large_fills_are_run_and_small_ones_kept():
    def step(s, x):
        return {"big": torch.zeros(2000), "small": torch.ones(2)}, [x * 1]

    recording = trace(step, {}, X.clone())
    program = optimise(recording, collect_weights(None))
    assert [op.name for op in program.tape.ops] == ["aten::mul.Tensor", "aten::zero_"][::-1]
    assert len(program.constants) == 1


def test_equal_constants_are_one():
    def step(s, x):
        return s, [x + torch.arange(8.0), x * torch.arange(8.0)]

    recording = check_replay(step, {}, X, outputs=2)
    program = optimise(recording, collect_weights(None))
    assert [storage.kind for storage in program.tape.storages].count("constant") == 1


def test_memory_that_is_never_written_folds_to_zeros():
    def step(s, x):
        padded = torch.empty(4)
        padded[:2] = 1
        return s, [x + padded[:2].sum()]

    recordings = [trace(step, {}, X.clone()) for _ in range(2)]
    programs = [optimise(recording, collect_weights(None)) for recording in recordings]
    assert programs[0].tape == programs[1].tape


def test_dead_code_drops_views_and_unused_results_but_not_draws():
    def step(s, x):
        torch.exp(x).view(2, 4).t()
        torch.rand(2)
        return s, [x.view(2, 4).t() + 1]

    assert names(step, {}, X, switches=frozenset({"dead"})) == ["aten::rand", "aten::add.Tensor"]


def test_dead_code_keeps_writes_that_are_read_later_only():
    def step(s, x):
        buffer = x * 2
        buffer[:2] = 0
        y = buffer + 1
        buffer[2:] = 7
        return s, [y]

    assert names(step, {}, X) == ["aten::mul.Tensor", "aten::fill_.Tensor", "aten::add.Tensor"]


def test_dead_code_keeps_assertions():
    def step(s, x):
        torch._assert_async((x < 5).all())
        return s, [x + 1]

    assert names(step, {}, X) == ["aten::lt.Scalar", "aten::all", "aten::_assert_async", "aten::add.Tensor"]


@pytest.mark.parametrize(
    ("make", "fill"),
    [
        (lambda x: torch.zeros(8), "aten::zero_"),
        (torch.zeros_like, "aten::zero_"),
        (lambda x: x.new_ones(8), "aten::fill_.Scalar"),
        (lambda x: torch.full((8,), 0.1), "aten::fill_.Scalar"),
        (lambda x: torch.full_like(x, 3), "aten::fill_.Scalar"),
        (lambda x: x.new_full((8,), 2), "aten::fill_.Scalar"),
        (lambda x: torch.rand(8), "aten::uniform_"),
        (torch.rand_like, "aten::uniform_"),
        (lambda x: torch.randn(8), "aten::normal_"),
        (lambda x: torch.randn_like(x.view(2, 4).t()).flatten(), "aten::normal_"),
    ],
)
def test_factories_become_fills(make, fill: str):
    def step(s, x):
        y = make(x)
        y += x
        return s, [y]

    assert names(step, {}, X)[0] == fill


def test_new_leaves_are_made_in_place():
    def step(s, x):
        h = s["h"] * 0.9
        return {"h": h, "sum": torch.stack([x.sum(), h.sum()])}, [h + 1]

    recording = check_replay(step, {"h": torch.zeros(8), "sum": torch.zeros(2)}, X)
    tape = optimise(recording, collect_weights(None)).tape
    assert [b.value for b in tape.state_out] == [b.value for b in tape.state_in]
    without = optimise(recording, collect_weights(None), ALL - {"in_place"}).tape
    assert not {b.value for b in without.state_out} & {b.value for b in without.state_in}


def old_read_later(s, x):
    h = s["h"] + 1
    return {"h": h}, [s["h"] * 2]


@pytest.mark.parametrize(
    "step",
    [
        lambda s, x: ({"h": s["h"].flip(0)}, [x]),
        lambda s, x: ({"h": s["h"] + s["h"][0]}, [x]),
        lambda s, x: ({"h": s["h"] + 1}, [s["h"]]),
        old_read_later,
        lambda s, x: ({"h": torch.cat([s["h"][4:], x[:4]])}, [x]),
        lambda s, x: ({"h": (s["h"] + 1).view(2, 4).t().reshape(-1)[:8].view(4, 2).t()}, [x]),
    ],
    ids=["flipped", "another window read", "old one leaves", "old one read later", "shifted", "other form"],
)
def test_new_leaves_that_cannot_be_made_in_place(step):
    recording = check_replay(step, {"h": torch.zeros(8)}, X)
    tape = optimise(recording, collect_weights(None)).tape
    assert tape.state_out[0].value != tape.state_in[0].value


def test_new_leaves_that_trade_places_stay_apart():
    def step(s, x):
        return {"a": s["b"] + 1, "b": s["a"] + 1}, [x]

    check_replay(step, {"a": torch.zeros(8), "b": torch.zeros(8)}, X)


def test_compact_numbers_storages_as_they_are_met():
    view = View(2, "float32", (1,), (1,), 0)
    storages = (Storage("scratch", "", 4), Storage("constant", "abc", 4), Storage("input", "x", 4))
    op = Op("aten::neg", (view,), (), (View(0, "float32", (1,), (1,), 0),), (2,), (0,), "")
    tape = Tape("s", storages, (Binding("x", view),), (), (op,), (Binding("y", op.outs[0]),), ())  # type: ignore[arg-type]
    program = compact(Program(tape, {"abc": torch.zeros(4, dtype=torch.uint8)}, frozenset({"abc"})))
    assert [storage.kind for storage in program.tape.storages] == ["input", "scratch"]
    assert program.constants == {} and program.derived == frozenset()
    assert compact(program) == program


def test_passes_can_be_run_again():
    def step(s, x):
        return {"h": s["h"] * 0.5 + x}, [x * torch.hann_window(8) + torch.randn(8)]

    recording = trace(step, {"h": torch.zeros(8)}, X.clone())
    program = optimise(recording, collect_weights(None))
    for run in (fold.run, dead.run, *PASSES.values()):
        assert run(program, CONTEXT).tape == program.tape


def test_a_listing_names_everything():
    linear = nn.Linear(8, 2)

    def step(s, x):
        y = linear(x) * 0.5 + torch.arange(2.0)
        return {"h": torch.cat([s["h"][1:], y[:1]]), "n": 4}, [y, torch.rand(1)]

    recording = trace(step, {"h": torch.zeros(3), "n": 3}, X.view(1, 8)[0], model=linear, outputs=2)
    text = format_tape(optimise(recording, collect_weights(linear)).tape)
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[:3] == [
        "tape step: 5 ops, 1 draw",
        "  input     %0    x0           float32 [8]",
        "  leaf      %1    h            float32 [3]",
    ]
    assert "  leaf            n            = 3" in lines
    assert any(line.startswith("  weight    ") and "weight (64 bytes)" in line for line in lines)
    assert any(line.startswith("  constant  ") for line in lines)
    assert any("aten::mul.Tensor(" in line and ", 0.5)" in line and "test_passes.py:" in line for line in lines)
    assert "%1[2]@1" in text
    assert lines[-1] == "  new leaf  n            = 4"


def test_a_copy_of_what_was_filled_on_the_host_is_a_fill():
    host, copy = View(0, "float32", (2000,), (1,), 0), View(1, "float32", (2000,), (1,), 0)
    device = (("device", Literal("device", "target")),)
    tape = Tape(
        "init",
        (Storage("scratch", "", 8000, host=True), Storage("scratch", "", 8000)),
        (),
        (),
        (
            Op("aten::zeros", ((Literal("int", "2000"),),), (), (host,), (), (0,), "model.py:3"),
            Op("aten::_to_copy", (host,), device, (copy,), (0,), (1,), "model.py:4"),
        ),
        (),
        (Binding("h", copy),),
    )
    program = Program(tape, {})
    for run in (fills.run, fold.run, dead.run):
        program = run(program, CONTEXT)
    assert [(op.name, op.writes, op.source) for op in program.tape.ops] == [("aten::zero_", (0,), "model.py:4")]
    assert [storage.host for storage in program.tape.storages] == [False]
    changed = replace(tape, ops=(tape.ops[0], _added_to(host), tape.ops[1]))
    assert [op.name for op in fills.run(Program(changed, {}), CONTEXT).tape.ops][-1] == "aten::_to_copy"


def _added_to(view: View) -> Op:
    return Op("aten::add_.Scalar", (view, Literal("int", "1")), (), (view,), (0,), (0,), "")
