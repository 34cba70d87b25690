"""What a CUDA plan keeps of a tape: names bound to storages of their own, however they alias in the model."""

from cadence_runtime.format.check_tape import TapeChecker
from cadence_runtime.format.tape import Binding, Storage, Tape, View
from cadencec.targets.cuda.finish import interface


def test_a_new_leaf_that_is_the_input_stands_on_its_own() -> None:
    x, h = View(0, "float32", (2, 3), (3, 1), 0), View(1, "float32", (3,), (0,), 0)
    tape = Tape(
        "step",
        (Storage("input", "x", 24), Storage("leaf", "h", 4)),
        (Binding("x", x),),
        (Binding("h", h),),
        (),
        (Binding("y", h),),
        (Binding("h", x),),
    )
    found = interface(tape)
    assert [(storage.kind, storage.name) for storage in found.storages] == [
        ("input", "x"),
        ("leaf", "h"),
        ("scratch", ""),
        ("scratch", ""),
    ]
    assert [row.value.sizes for row in (*found.outputs, *found.state_out) if isinstance(row.value, View)] == [
        (3,),
        (2, 3),
    ]
    assert list(TapeChecker().errors(0, found)) == []
