"""Tapes written by hand, as graphs: where results go, what is staged, how operands reach the interpreter."""

from typing import Any

import pytest
import torch
from torch import Tensor

from cadence_runtime.cpu.capture import prepare
from cadence_runtime.cpu.graph import GraphBuilder, Script
from cadence_runtime.cpu.player import CpuPlayer
from cadence_runtime.errors import PlanError
from cadence_runtime.format.tape import Literal, Storage, Tape
from cadencec.trace.fidelity import difference
from cadencec.trace.interpret import interpret
from tests.cpu.tapes import call, ints, number, plan_of, play, scratch, stage, view

X = Storage("input", "x", 32)
NONE = Literal("none", "")


def same_as_interpreted(tape: Tape, leaves: dict[str, Tensor] | None = None, **inputs: Tensor) -> Any:
    """Play a tape, hold it to the interpreter, and return what was played."""
    given = inputs or {"x": torch.linspace(-2, 2, 8)}
    played = play(tape, given, leaves or {})
    outputs, state = interpret(tape, given, leaves or {}, {}.__getitem__, {}.__getitem__)
    assert [difference(got, want) for got, want in zip(played.outputs, outputs, strict=True)] == [None] * len(outputs)
    assert all(difference(played.leaves[path], want) is None for path, want in state.items())
    return played


def on_x(storages: list[Storage], *ops: Any, **bound: Any) -> Tape:
    return stage([X, *storages], list(ops), inputs={"x": view(0, 8)}, **bound)


def kinds(tape: Tape) -> list[str]:
    """Return the kinds of the nodes that a tape comes to, without constants."""
    player = CpuPlayer(plan_of(tape, {}, {}), memoryview)
    script = prepare(player._places, player.plan.captures[0]).run
    return [node.kind() for node in script._function.graph.nodes() if node.kind() != "prim::Constant"]  # type: ignore[attr-defined]


def test_a_planned_result_that_is_an_output_is_made_where_the_output_goes() -> None:
    tape = on_x([scratch(32)], call("aten::sin", view(0, 8), out=view(1, 8)), outputs={"y": view(1, 8)})
    same_as_interpreted(tape)
    assert kinds(tape) == ["prim::ListUnpack", "aten::sin"]


def test_one_result_behind_two_outputs_is_made_for_the_first_and_copied_for_the_second() -> None:
    tape = on_x(
        [scratch(32)],
        call("aten::sin", view(0, 8), out=view(1, 8)),
        outputs={"y": view(1, 8), "z": view(1, 8), "part": view(1, 2, offset=3)},
    )
    same_as_interpreted(tape)
    assert kinds(tape) == ["prim::ListUnpack", "aten::sin", "aten::copy_", "aten::copy_"]


def test_an_unplanned_result_is_a_value_of_the_graph_and_its_windows_are_strided() -> None:
    tape = on_x(
        [scratch(32)],
        call("aten::erfinv", view(0, 8), out=view(1, 8)),
        outputs={"y": view(1, 2, offset=1), "again": view(1, 2, offset=1), "one": view(1, offset=5)},
    )
    same_as_interpreted(tape, x=torch.linspace(-0.9, 0.9, 8))
    assert kinds(tape).count("aten::as_strided") == 2


def test_a_list_of_results_is_unpacked() -> None:
    halves = (view(1, 3), view(2, 5))
    tape = on_x(
        [scratch(12), scratch(20)],
        call("aten::split_with_sizes_copy", view(0, 8), ints(3, 5), out=[halves]),
        call("aten::add_.Tensor", halves[1], number(1.5), out=halves[1]),
        outputs={"a": halves[0], "b": halves[1]},
    )
    same_as_interpreted(tape)
    assert "prim::ListUnpack" in kinds(tape)[1:]


def test_several_results_of_one_op() -> None:
    tape = on_x(
        [scratch(4), scratch(8)],
        call("aten::max.dim", view(0, 8), number(0), out=[view(1), view(2, dtype="int64")]),
        outputs={"value": view(1), "index": view(2, dtype="int64")},
    )
    same_as_interpreted(tape)


def test_a_result_seen_under_two_dtypes_stands_on_memory() -> None:
    tape = on_x(
        [scratch(32), scratch(32)],
        call("aten::erfinv", view(0, 8), out=view(1, 8)),
        call("aten::bitwise_and.Scalar", view(1, 8, dtype="int32"), number(-16), out=view(2, 8, dtype="int32")),
        outputs={"y": view(2, 8, dtype="float32")},
    )
    same_as_interpreted(tape, x=torch.linspace(-0.9, 0.9, 8))


def test_conjugated_and_negated_views() -> None:
    lazy = view(1, 8, dtype="complex64", conj=True)
    imaginary = view(1, 8, offset=1, strides=(2,), neg=True)
    tape = on_x(
        [scratch(64), scratch(64)],
        call("aten::complex", view(0, 8), view(0, 8), out=view(1, 8, dtype="complex64")),
        call("aten::exp", lazy, out=view(2, 8, dtype="complex64")),
        outputs={"y": view(2, 8, dtype="complex64"), "lazy": lazy, "imaginary": imaginary},
    )
    same_as_interpreted(tape)


def test_in_place_on_a_result_that_torch_allocated() -> None:
    tape = on_x(
        [scratch(32)],
        call("aten::erfinv", view(0, 8), out=view(1, 8)),
        call("aten::mul_.Tensor", view(1, 4, offset=4), number(2.0), out=view(1, 4, offset=4)),
        outputs={"y": view(1, 8)},
    )
    same_as_interpreted(tape, x=torch.linspace(-0.9, 0.9, 8))


LEAVES = [Storage("leaf", "a", 16), Storage("leaf", "b", 16)]


def test_leaves_that_change_places_are_staged() -> None:
    a, b = view(0, 4), view(1, 4)
    tape = stage(LEAVES, [], state_in={"a": a, "b": b}, state_out={"a": b, "b": a}, outputs={"y": a})
    leaves = {"a": torch.arange(4.0), "b": -torch.arange(4.0)}
    assert same_as_interpreted(tape, leaves).leaves["a"].tolist() == [0, -1, -2, -3]
    assert kinds(tape).count("aten::clone") == 2


def test_a_leaf_that_moves_within_its_slot_is_staged() -> None:
    a = view(0, 4)
    tape = stage(LEAVES[:1], [], state_in={"a": a}, state_out={"a": view(0, 3, offset=1)})
    assert same_as_interpreted(tape, {"a": torch.arange(4.0)}).leaves["a"].tolist() == [1, 2, 3]


def test_a_leaf_that_stays_is_not_touched() -> None:
    tape = stage(LEAVES[:1], [], state_in={"a": view(0, 4)}, state_out={"a": view(0, 4)})
    same_as_interpreted(tape, {"a": torch.arange(4.0)})
    assert kinds(tape) == ["prim::ListUnpack"]


def test_a_leaf_that_repeats_itself_is_stored_once() -> None:
    repeated = view(1, 3, 4, strides=(0, 1))
    tape = on_x([scratch(16)], call("aten::sin", view(0, 4), out=view(1, 4)), state_out={"a": repeated})
    same_as_interpreted(tape)


def test_literal_outputs_and_leaves_are_no_business_of_the_graph() -> None:
    tape = on_x([], outputs={"n": number(3)}, state_out={"c": number(4)})
    played = play(tape, {"x": torch.zeros(8)}, {})
    assert (played.outputs, played.leaves) == ([number(3)], {"c": number(4)})


def test_optional_tensors_strings_and_lists_with_holes() -> None:
    index = view(1, 2, dtype="int64")
    wide = view(0, 2, 4)
    tape = stage(
        [X, Storage("input", "i", 16), scratch(16), scratch(32), scratch(32)],
        [
            call("aten::index.Tensor", wide, (NONE, index), out=view(2, 2, 2)),
            call("aten::gelu", wide, out=view(3, 2, 4), approximate=Literal("str", "tanh")),
            call("aten::native_layer_norm", wide, ints(4), NONE, NONE, number(1e-5),
                 out=[view(4, 2, 4), NONE, NONE]),
        ],
        inputs={"x": wide, "i": index},
        outputs={"picked": view(2, 2, 2), "y": view(3, 2, 4), "n": view(4, 2, 4)},
    )  # fmt: skip
    inputs = {"x": torch.linspace(-2, 2, 8).view(2, 4), "i": torch.tensor([3, 0])}
    played = play(tape, inputs, {})
    assert torch.equal(played.outputs[0], inputs["x"][:, inputs["i"]])
    assert torch.equal(played.outputs[1], torch.nn.functional.gelu(inputs["x"], approximate="tanh"))
    assert torch.equal(played.outputs[2], torch.nn.functional.layer_norm(inputs["x"], (4,)))


def test_a_list_of_tensors_alone_where_holes_may_be() -> None:
    index = view(1, 3, dtype="int64")
    tape = stage(
        [X, Storage("input", "i", 24), scratch(12)],
        [call("aten::index.Tensor", view(0, 8), (index,), out=view(2, 3))],
        inputs={"x": view(0, 8), "i": index},
        outputs={"y": view(2, 3)},
    )
    same_as_interpreted(tape, x=torch.arange(8.0), i=torch.tensor([7, 0, 3]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "int64", "bool"])
@pytest.mark.parametrize("value", [2, 2.7, True])
@pytest.mark.parametrize("sizes", [(4,), ()])
def test_a_number_beside_a_tensor_has_the_bits_of_a_wrapped_one(
    dtype: str, value: float, sizes: tuple[int, ...]
) -> None:
    x = torch.tensor([0.1, 1.3, 2.0, -3.7])[: sizes[0] if sizes else 1].to(getattr(torch, dtype)).reshape(sizes)
    expected = x * value
    made = view(1, *sizes, dtype=str(expected.dtype).removeprefix("torch."))
    tape = stage(
        [Storage("input", "x", x.numel() * x.element_size()), scratch(expected.numel() * expected.element_size())],
        [call("aten::mul.Tensor", view(0, *sizes, dtype=dtype), number(value), out=made)],
        inputs={"x": view(0, *sizes, dtype=dtype)},
        outputs={"y": made},
    )
    same_as_interpreted(tape, x=x)


def test_what_only_makes_views_or_reserves_memory_is_left_out() -> None:
    view_op = call("aten::view", view(0, 8), ints(2, 4), out=view(0, 2, 4))
    reservation = call("aten::empty.memory_format", ints(8), out=view(1, 8))
    tape = on_x(
        [scratch(32)],
        *(type(op)(op.name, op.args, op.kwargs, op.outs, (), (), "") for op in (view_op, reservation)),
        call("aten::copy_", view(1, 8), view(0, 8), out=view(1, 8)),
        outputs={"y": view(1, 8)},
    )
    same_as_interpreted(tape)
    assert kinds(tape) == ["prim::ListUnpack", "aten::copy_"]


def test_memory_that_is_reserved_and_never_written_is_made_by_its_op() -> None:
    reservation = call("aten::empty.memory_format", ints(0), out=view(1, 0))
    tape = on_x(
        [scratch(0), scratch(32)],
        type(reservation)(reservation.name, reservation.args, (), reservation.outs, (), (), ""),
        call("aten::cat", (view(1, 0), view(0, 8)), number(0), out=view(2, 8)),
        outputs={"y": view(2, 8)},
    )
    same_as_interpreted(tape)


def test_a_result_that_no_op_has_made_is_refused() -> None:
    tape = on_x([scratch(32)], outputs={"y": view(1, 8)})
    with pytest.raises(PlanError) as caught:
        kinds(tape)
    assert str(caught.value) == (
        "CAD5602: a tape of stage `step` reads what none of its ops has made yet\n"
        "  expected: an op that makes it, before it is read\n"
        "  got:      none for storage 1"
    )


def test_an_op_with_other_operands_than_it_takes_is_refused() -> None:
    op = call("aten::pow.Tensor_Scalar", view(0, 8), view(0, 8), out=view(1, 8))
    with pytest.raises(PlanError) as caught:
        kinds(on_x([scratch(32)], op, outputs={"y": view(1, 8)}))
    assert str(caught.value) == (
        "CAD5603: a tape of stage `step` calls `aten::pow.Tensor_Scalar` with other operands than it takes\n"
        "  expected: aten::pow.Tensor_Scalar_out(Tensor self, Scalar exponent, *, Tensor(a!) out) -> Tensor(a!)\n"
        "  got:      aten::pow.Tensor_Tensor_out(Tensor self, Tensor exponent, *, Tensor(a!) out) -> Tensor(a!)\n"
        "  at:       model.py:1"
    )


def squares(x: Tensor) -> tuple[Script, Tensor]:
    """Return a script that leaves `x @ x` behind, and where."""
    y = torch.empty_like(x)
    tape = stage(
        [X, scratch(36)],
        [call("aten::mm", view(0, 3, 3), view(0, 3, 3), out=view(1, 3, 3))],
        inputs={"x": view(0, 3, 3)},
    )
    builder = GraphBuilder(tape, frozenset([0, 1]), lambda v: (x, y)[v.storage])
    builder.add_op(tape.ops[0])
    return builder.finish(), y


def test_a_script_knows_neither_autograd_nor_autocast_and_leaves_the_callers_switches_alone() -> None:
    x = torch.rand(3, 3, requires_grad=True)
    script, y = squares(x)
    with torch.autocast("cpu", torch.bfloat16):
        script()
        assert torch.is_grad_enabled()
        assert torch._C._get_graph_executor_optimize()
        assert torch.is_autocast_enabled("cpu")
    assert torch.equal(y, x.detach() @ x.detach())
    assert not y.requires_grad


def test_a_script_that_raises_leaves_the_callers_switches_alone() -> None:
    tape = stage(
        [X, scratch(36)],
        [call("aten::mm", view(0, 3, 3), view(0, 2, 3), out=view(1, 3, 3))],
        inputs={"x": view(0, 3, 3)},
    )
    builder = GraphBuilder(tape, frozenset([0, 1]), lambda v: torch.zeros(v.sizes))
    builder.add_op(tape.ops[0])
    with pytest.raises(RuntimeError):
        builder.finish()()
    assert torch.is_grad_enabled()
    assert torch._C._get_graph_executor_optimize()
