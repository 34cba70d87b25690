"""The CPU player: what it takes as an array, which thread and mode it may be called in, what it gives back."""

import gc
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from cadence_runtime.cpu.player import CpuPlayer
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.tape import Storage
from tests.cpu.tapes import call, number, plan_of, scratch, stage, view

NEG = stage(
    [Storage("input", "x", 16), scratch(16)],
    [call("aten::neg", view(0, 4), out=view(1, 4))],
    inputs={"x": view(0, 4)},
    outputs={"y": view(1, 4)},
)
COUNT = stage(
    [Storage("leaf", "a", 16)],
    [call("aten::add_.Tensor", view(0, 4), number(1), out=view(0, 4))],
    state_in={"a": view(0, 4)},
    state_out={"a": view(0, 4)},
)


def player_of(tape: Any) -> CpuPlayer:
    return CpuPlayer(plan_of(tape, {}, {}), memoryview)


class Foreign:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **more: Any) -> object:
        return self.tensor.__dlpack__(**more)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


VALUES = torch.tensor([1.0, -2.0, 3.5, 0.0])
ACCEPTED = {
    "tensor": VALUES.clone,
    "parameter": lambda: torch.nn.Parameter(VALUES.clone()),
    "strided tensor": lambda: torch.stack([VALUES, VALUES], 1)[:, 0],
    "array": lambda: VALUES.clone().numpy(),
    "read-only array": lambda: frozen(VALUES.clone().numpy()),
    "array from bytes": lambda: np.frombuffer(VALUES.numpy().tobytes(), np.float32),
    "reversed array": lambda: VALUES.flip(0).numpy()[::-1],
    "strided array": lambda: np.stack([VALUES.numpy()] * 2, 1)[:, 0],
    "big-endian array": lambda: VALUES.numpy().astype(">f4"),
    "array off its alignment": lambda: np.frombuffer(b"0" + VALUES.numpy().tobytes(), np.float32, offset=1),
    "foreign array": lambda: Foreign(VALUES.clone()),
}


@pytest.mark.parametrize("make", ACCEPTED.values(), ids=ACCEPTED)
def test_arrays_that_are_taken(make: Any) -> None:
    player = player_of(NEG)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        player.write_input(0, 0, player.accept(make(), "float32"))
    player.run(0, player.seeded(0))
    assert torch.equal(player.output(0, 0), -VALUES)


@pytest.mark.parametrize("sizes", [(), (0,), (2, 0, 3)])
def test_arrays_without_dims_or_elements(sizes: tuple[int, ...]) -> None:
    player = player_of(NEG)
    assert player.accept(np.zeros(sizes, np.int16), "int16").shape == sizes
    assert player.accept(np.float32(3), "float32").shape == ()


def test_bfloat16_comes_as_a_tensor() -> None:
    player = player_of(NEG)
    assert player.accept(VALUES.bfloat16(), "bfloat16").dtype is torch.bfloat16


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ([1.0], TypeError, "list"),
        ("x", TypeError, "str"),
        (np.zeros(3), ValueError, "float64 on cpu"),
        (np.array(["a"]), ValueError, "an array of <U1"),
        (np.array([None]), ValueError, "an array of object"),
        (torch.zeros(3, device="meta"), ValueError, "float32 on meta"),
        (torch.zeros(3).to_sparse(), ValueError, "sparse_coo float32 on cpu"),
    ],
)
def test_what_is_no_array_of_the_dtype(value: object, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        player_of(NEG).accept(value, "float32")
    assert str(caught.value) == text


class Unreachable:
    def __dlpack__(self, **more: object) -> object:
        raise BufferError("not on this host")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_a_foreign_array_that_torch_cannot_read() -> None:
    with pytest.raises(ValueError, match="a `Unreachable` that torch cannot read: "):
        player_of(NEG).accept(Unreachable(), "float32")


def counted(player: CpuPlayer) -> list[float]:
    form = player.plan.forms[player.plan.captures[0].writes[0][1]]
    return player.leaf(0, form).tolist()  # type: ignore[arg-type,no-any-return]


def test_what_is_made_under_inference_mode_runs_elsewhere() -> None:
    with torch.inference_mode():
        player, slab = player_of(NEG), None
        player.write_input(0, 0, torch.ones(4))
        slab = player.new_slab()
    player.write_input(0, 0, VALUES)
    player.run(0, player.seeded(0))
    player.deactivate(slab)
    assert torch.equal(player.output(0, 0), -VALUES)
    assert not player.copy(player.output(0, 0)).is_inference()


def test_it_runs_under_modes_that_change_what_torch_makes() -> None:
    with torch.device("meta"), torch.inference_mode():
        player = player_of(COUNT)
        for _ in range(3):
            player.run(0, player.seeded(0))
        assert counted(player) == [3.0] * 4


def test_it_runs_on_any_thread() -> None:
    player = player_of(COUNT)
    threads = [threading.Thread(target=player.run, args=(0, player.seeded(0))) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert counted(player) == [2.0] * 4


def test_slabs_hold_the_state_and_start_as_zeros() -> None:
    player = player_of(COUNT)
    player.run(0, player.seeded(0))
    fresh, kept = player.new_slab(), player.new_slab()
    assert not fresh.any()
    player.deactivate(kept)
    player.activate(fresh)
    assert counted(player) == [0.0] * 4
    player.activate(kept)
    assert counted(player) == [1.0] * 4


def test_what_is_lent_is_lent_again() -> None:
    player = player_of(NEG)
    first = player.lend(torch.ones(2), None)
    again = player.lend(torch.zeros(2), first)
    assert again.data_ptr() == first.data_ptr()
    assert first.tolist() == [0.0, 0.0]
    other = player.lend(torch.ones(3), again)
    assert other.data_ptr() != again.data_ptr()


def test_a_stage_that_fails_is_named_with_torchs_own_words() -> None:
    looked_up = view(0, 2, dtype="int64")
    tape = stage(
        [Storage("input", "x", 16), Storage("constant", "table", 12), scratch(8)],
        [call("aten::index_select", view(1, 3), number(0), looked_up, out=view(2, 2))],
        inputs={"x": looked_up},
        outputs={"y": view(2, 2)},
    )
    player = CpuPlayer(plan_of(tape, {}, {"table": torch.arange(3.0)}), memoryview)
    player.write_input(0, 0, torch.tensor([0, 7]))
    with pytest.raises(DeviceError) as caught:
        player.run(0, player.seeded(0))
    assert str(caught.value) == (
        "CAD8010: stage `step` failed while it ran\n"
        "  expected: a replay\n"
        "  got:      RuntimeError: index out of range in self\n"
        "  hint:     the session has ended; open another"
    )
    player.write_input(0, 0, torch.tensor([2, 1]))
    player.run(0, player.seeded(0))
    assert player.output(0, 0).tolist() == [2.0, 1.0]


def test_an_arena_that_memory_has_no_room_for() -> None:
    tape = stage([Storage("leaf", "a", 1 << 60)], [], state_in={"a": view(0, 1 << 58)})
    with pytest.raises(DeviceError) as caught:
        player_of(tape)
    assert str(caught.value) == (
        f"CAD8011: there is no memory for the arena of the plan\n"
        f"  expected: {(1 << 60) + 256} bytes\n"
        f"  got:      the system refused them"
    )


def test_weights_that_cannot_be_read_leave_nothing_held() -> None:
    tape = stage([Storage("weight", "w", 16)], [], outputs={"y": view(0, 4)})
    before = torch.get_num_threads()

    def fail(name: str) -> memoryview:
        raise OSError(name)

    with pytest.raises(OSError, match="w"):
        CpuPlayer(plan_of(tape, {"w": torch.zeros(4)}, {}), fail)
    assert torch.get_num_threads() == before


def test_closing_gives_back_the_arena() -> None:
    player = player_of(NEG)
    player.run(0, player.seeded(0))
    arena = weakref.ref(player._places.arena.bytes)
    output = player.output(0, 0)
    player.close()
    player.close()
    gc.collect()
    assert arena() is None
    assert output.shape == (4,)  # what was handed out stands on its own reference


def test_sizes_are_reported_with_what_torch_allocates() -> None:
    tape = stage(
        [Storage("input", "x", 16), scratch(16), scratch(16)],
        [call("aten::erfinv", view(0, 4), out=view(1, 4)), call("aten::neg", view(1, 4), out=view(2, 4))],
        inputs={"x": view(0, 4)},
        outputs={"y": view(2, 4)},
    )
    assert player_of(tape).report() == {
        "weights": 0, "constants": 0, "state": 0, "io": 512, "scratch": 256, "unplanned": 16,
    }  # fmt: skip
