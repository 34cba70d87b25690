"""Scratch of a CPU tape: what is planned, where, and what torch still allocates."""

import pytest

from cadence_runtime.errors import TargetError
from cadence_runtime.format.tape import Binding, Op, Storage, Tape, View
from cadencec.targets.cpu.lower import lower


def view(storage: int, size: int = 64) -> View:
    return View(storage, "float32", (size,), (1,), 0)


def op(name: str, source: int, made: int) -> Op:
    return Op(name, (view(source),), (), (view(made),), (source,), (made,), f"model.py:{made}")


def tape(*names: str) -> Tape:
    """Return a chain of ops from input 0, each making the next storage."""
    scratch = tuple(Storage("scratch", "", 256) for _ in names)
    ops = tuple(op(name, index, index + 1) for index, name in enumerate(names))
    out = (Binding("y", view(len(names))),)
    return Tape("step", (Storage("input", "x", 256), *scratch), (Binding("x", view(0)),), (), ops, out, ())


def test_a_chain_needs_two_buffers_and_no_more() -> None:
    lowered = lower(tape("aten::sin", "aten::cos", "aten::exp", "aten::tanh"))
    assert [storage for storage, _ in lowered.scratch] == [1, 2, 3, 4]
    assert lowered.packing.height_bytes == lowered.packing.lower_bound_bytes == 512
    assert lowered.unplanned_bytes == 0


def test_what_has_no_overload_that_writes_in_place_is_counted() -> None:
    lowered = lower(tape("aten::sin", "aten::erfinv", "aten::cos"))
    assert [storage for storage, _ in lowered.scratch] == [1, 3]
    assert lowered.unplanned_bytes == 256


def test_an_op_that_no_plan_may_hold_is_named_with_its_line() -> None:
    with pytest.raises(TargetError) as caught:
        lower(tape("aten::sin", "aten::from_file"))
    assert str(caught.value) == (
        "CAD4001: `aten::from_file` cannot be part of a CPU plan\n"
        "  expected: an aten op on plain tensors and numbers\n"
        "  got:      an op that reaches beyond its operands\n"
        "  at:       model.py:2\n"
        "  hint:     keep the op outside of the stage, and pass its result as an input"
    )
