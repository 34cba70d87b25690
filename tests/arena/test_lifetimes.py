"""Lifetimes follow the reads and writes of a tape; the checker at load works them out again and agrees."""

from cadence_runtime.format import layout
from cadence_runtime.format.tape import Binding, Op, Storage, Tape, View
from cadencec.arena.lifetimes import buffers, lifetimes
from cadencec.arena.planner import Buffer


def view(storage: int) -> View:
    return View(storage, "float32", (4,), (1,), 0)


def op(reads: tuple[int, ...], writes: tuple[int, ...]) -> Op:
    return Op("aten::x", tuple(map(view, reads)), (), tuple(map(view, writes)), reads, writes, "")


def tape(*ops: Op, outputs: tuple[int, ...] = (), state_out: tuple[int, ...] = ()) -> Tape:
    storages = (Storage("leaf", "h", 16), *(Storage("scratch", "", 16 * size) for size in range(1, 6)))
    out = tuple(Binding(f"y{index}", view(index)) for index in outputs)
    return Tape("step", storages, (), (), ops, out, tuple(Binding("h", view(index)) for index in state_out))


def test_a_storage_lives_from_its_first_to_its_last_use() -> None:
    made = tape(op((0,), (1,)), op((1,), (2,)), op((1, 2), (3,)), outputs=(3,))
    assert lifetimes(made) == {0: (0, 1), 1: (0, 3), 2: (1, 3), 3: (2, 4)}


def test_outputs_and_new_leaves_live_until_all_are_copied_out() -> None:
    made = tape(op((0,), (1,)), op((0,), (2,)), outputs=(1, 5), state_out=(2,))
    assert lifetimes(made) == {0: (0, 2), 1: (0, 3), 2: (1, 3), 5: (2, 3)}


def test_an_op_that_only_makes_views_uses_nothing() -> None:
    reserve = Op("aten::empty", (), (), (view(1),), (), (), "")
    assert lifetimes(tape(reserve, op((0,), (1,)))) == {0: (1, 2), 1: (1, 2)}


def test_only_planned_storages_become_buffers() -> None:
    made = tape(op((0,), (1,)), op((1,), (2,)), state_out=(2,))
    assert buffers(made, [2, 1, 4]) == [Buffer("2", 32, 1, 3), Buffer("1", 16, 0, 2), Buffer("4", 64, 0, 0)]


def test_the_checker_agrees() -> None:
    made = tape(op((0,), (1,)), op((1,), (2, 3)), op((3,), (1,)), outputs=(2,), state_out=(5,))
    assert layout.lifetimes(made) == lifetimes(made)
