"""The interpreter on tapes written by hand: where results go, what is freed, what is refused."""

import pytest
import torch

from cadence_runtime.errors import TraceError
from cadence_runtime.format.tape import Binding, Literal, Op, Storage, Tape, View
from cadencec.trace.interpret import Memory, interpret, last_uses
from cadencec.trace.operands import DTYPES, decode_literal, encode_literal

CPU = torch.device("cpu")


def no_weight(name: str) -> torch.Tensor:
    raise AssertionError(name)


def view(storage: int, *sizes: int, offset: int = 0) -> View:
    strides = tuple(torch.empty(sizes).stride())
    return View(storage, "float32", sizes, strides, offset)


def tape(ops: tuple[Op, ...], out: View, *storages: Storage) -> Tape:
    return Tape("step", storages, (Binding("x", view(0, 4)),), (), ops, (Binding("y", out),), ())


INPUT = Storage("input", "x", 16)
SCRATCH = Storage("scratch", "", 16)
ONE = Literal("int", "1")


def run(tape: Tape) -> torch.Tensor:
    (y,), state = interpret(tape, {"x": torch.arange(4.0)}, {}, no_weight, no_weight)
    assert state == {}
    assert isinstance(y, torch.Tensor)
    return y


def test_a_fresh_result_becomes_the_storage():
    op = Op("aten::add.Scalar", (view(0, 4), ONE), (), (view(1, 4),), (0,), (1,), "")
    assert run(tape((op,), view(1, 4), INPUT, SCRATCH)).tolist() == [1, 2, 3, 4]


def test_a_result_for_a_storage_that_is_there_is_copied_into_it():
    first = Op("aten::add.Scalar", (view(0, 4), ONE), (), (view(1, 4),), (0,), (1,), "")
    second = Op("aten::add.Scalar", (view(0, 2), ONE), (), (view(1, 2, offset=2),), (0,), (1,), "")
    assert run(tape((first, second), view(1, 4), INPUT, SCRATCH)).tolist() == [1, 2, 1, 2]


def test_memory_that_nothing_has_written_is_zero():
    assert run(tape((), view(1, 4), INPUT, SCRATCH)).tolist() == [0, 0, 0, 0]


def test_inputs_are_copied_in():
    op = Op("aten::add_.Scalar", (view(0, 4), ONE), (), (view(0, 4),), (0,), (0,), "")
    x = torch.arange(4.0)
    (y,), _ = interpret(tape((op,), view(0, 4), INPUT), {"x": x}, {}, no_weight, no_weight)
    assert torch.equal(x, torch.arange(4.0))
    assert torch.equal(torch.as_tensor(y), x + 1)


def test_a_weight_counts_from_its_first_byte():
    weight = torch.arange(8.0)[3:]
    op = Op("aten::add.Tensor", (view(0, 4), view(1, 4)), (), (view(2, 4),), (0, 1), (2,), "")
    made = tape((op,), view(2, 4), INPUT, Storage("weight", "w", 20), SCRATCH)
    (y,), _ = interpret(made, {"x": torch.zeros(4)}, {}, {"w": weight}.__getitem__, no_weight)
    assert torch.equal(torch.as_tensor(y), weight[:4])


def test_scratch_is_freed_after_its_last_use():
    ops = tuple(Op("aten::neg", (view(i, 4),), (), (view(i + 1, 4),), (i,), (i + 1,), "") for i in range(3))
    made = tape(ops, view(3, 4), INPUT, SCRATCH, SCRATCH, SCRATCH)
    assert last_uses(made) == [(), (1,), (2,)]
    memory = Memory(made.storages, CPU)
    memory.base(1)
    memory.release([1])
    assert not memory.is_bound(1)


def test_a_replay_that_makes_another_layout_is_refused():
    transposed = View(1, "float32", (2, 2), (1, 2), 0)
    op = Op("aten::neg", (view(0, 2, 2),), (), (transposed,), (0,), (1,), "model.py:3")
    with pytest.raises(TraceError) as caught:
        run(tape((op,), transposed, INPUT, SCRATCH))
    assert str(caught.value) == (
        "CAD3301: `aten::neg` made another layout in replay than when it was recorded\n"
        "  expected: sizes [2, 2], strides [1, 2], offset 0, float32\n"
        "  got:      sizes [2, 2], strides [2, 1], offset 0, float32\n"
        "  at:       model.py:3\n"
        "  hint:     report this: the op does not follow from its operands alone"
    )


@pytest.mark.parametrize(
    ("value", "got"),
    [(torch.zeros(3), "float32 [3]"), (torch.zeros(4, dtype=torch.int32), "int32 [4]"), (None, "`None`")],
)
def test_an_input_of_another_form_is_refused(value: object, got: str):
    with pytest.raises(TraceError) as caught:
        interpret(tape((), view(0, 4), INPUT), {"x": value}, {}, no_weight, no_weight)  # type: ignore[dict-item]
    assert str(caught.value) == (
        f"CAD3302: `x` is not what the tape was recorded with\n  expected: float32 [4]\n  got:      {got}"
    )


def test_a_literal_leaf_must_be_the_recorded_one():
    made = Tape("step", (), (), (Binding("n", Literal("int", "3")),), (), (), ())
    assert interpret(made, {}, {"n": 3}, no_weight, no_weight) == ((), {})
    with pytest.raises(TraceError, match="CAD3302"):
        interpret(made, {}, {"n": 4}, no_weight, no_weight)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        -3,
        2**62,
        0.1,
        -0.0,
        1 + 2j,
        "sum",
        torch.float16,
        torch.strided,
        torch.preserve_format,
        CPU,
        *list(DTYPES.values()),
    ],
    ids=str,
)
def test_literals_come_back_as_they_were(value: object):
    literal = encode_literal(value, CPU)
    assert repr(decode_literal(literal, CPU)) == repr(value)


def test_devices_are_the_target_or_the_host():
    cuda = torch.device("cuda", 0)
    assert encode_literal(torch.device("cuda"), cuda) == Literal("device", "target")
    assert encode_literal(torch.device("cpu"), cuda) == Literal("device", "cpu")
    assert decode_literal(Literal("device", "target"), cuda) == cuda
    assert decode_literal(Literal("device", "cpu"), cuda) == CPU
