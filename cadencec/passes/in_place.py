"""In-place state: a new leaf is computed right into its slot, where nothing still needs the old one.

    %3 = aten::mul(%0, 0.9)         state `h` = %3        ->        %0 = aten::mul(%0, 0.9)      state `h` = %0

The new leaf must take the same form as the old one and be made by one op, whole. From that op on nobody may read the
old leaf; the op itself may, if it works element by element and reads exactly the window that it writes. Then the bits
are the same and the copy from scratch to slot is saved.
"""

from dataclasses import replace

from cadence_runtime.format.tape import Op, Tape, View
from cadencec.passes.program import Context, Program, compact, rename_storages
from cadencec.trace.effects import effects_of
from cadencec.trace.operands import views_of


def run(program: Program, context: Context) -> Program:
    """Return the program with new leaves in place."""
    tape = program.tape
    moved: dict[int, int] = {}
    for binding in tape.state_out:
        moved.update(_moved(tape, binding.name))
    return compact(replace(program, tape=rename_storages(tape, moved))) if moved else program


def _moved(tape: Tape, path: str) -> dict[int, int]:
    """Return the renaming of a new leaf's scratch to the leaf's storage; empty where the leaf cannot be in place."""
    new = next(binding.value for binding in tape.state_out if binding.name == path)
    old = next((binding.value for binding in tape.state_in if binding.name == path), None)
    if not isinstance(new, View) or not isinstance(old, View) or replace(new, storage=old.storage) != old:
        return {}
    scratch = tape.storages[new.storage]
    if scratch.kind != "scratch" or scratch.size_bytes > old.span()[1] or not _is_alone(tape, old, new):
        return {}
    maker = next((index for index, op in enumerate(tape.ops) if _names(op, new.storage)), None)
    if maker is None or not _makes_whole(tape.ops[maker], new.storage):
        return {}
    later = tape.ops[maker + 1 :]
    if any(_touches(op, old.storage) for op in later) or not _may_overwrite(tape.ops[maker], old, new):
        return {}
    return {new.storage: old.storage}


def _is_alone(tape: Tape, old: View, new: View) -> bool:
    """Whether the old leaf's storage is no other leaf's, and leaves the stage nowhere; and the new one is one leaf."""
    entering = [binding.value for binding in tape.state_in]
    leaving = [binding.value for binding in (*tape.outputs, *tape.state_out)]
    news = [binding.value for binding in tape.state_out]
    return (
        sum(view.storage == old.storage for view in views_of(entering)) == 1
        and not any(view.storage == old.storage for view in views_of(leaving))
        and sum(view.storage == new.storage for view in views_of(news)) == 1
    )


def _makes_whole(op: Op, storage: int) -> bool:
    """Whether an op makes a storage as its fresh result (or fills it): it names it, but does not read it."""
    return storage in op.writes and storage not in op.reads


def _may_overwrite(op: Op, old: View, new: View) -> bool:
    """Whether an op may write the old leaf's storage while it reads it."""
    if old.storage not in op.reads:
        return old.storage not in op.writes
    made = [view for view in views_of(op.outs) if view.storage == new.storage]
    read = [view for view in _operands(op) if view.storage == old.storage]
    same = len(made) == 1 and all(replace(view, storage=new.storage) == made[0] for view in read)
    return same and effects_of(op.name).pointwise and old.storage not in op.writes


def _operands(op: Op) -> list[View]:
    return list(views_of((*op.args, *(value for _, value in op.kwargs))))


def _names(op: Op, storage: int) -> bool:
    return any(view.storage == storage for view in (*_operands(op), *views_of(op.outs)))


def _touches(op: Op, storage: int) -> bool:
    return storage in op.reads or storage in op.writes
