"""When each storage of a tape lives, in op positions.

    position      0        1        2        3 = behind the last op
    op            mm       relu     add
    storage 4     w--------r                       [0, 2)
    storage 5              w--------r              [1, 3)
    storage 6                       w--------out   [2, 4)

A position counts what an op reads and what it writes: at `add`, storages 5 and 6 both live. Outputs and new leaves are
copied out together behind the last op.
"""

from collections.abc import Sequence

from cadence_runtime.format.tape import Tape, View
from cadencec.arena.planner import Buffer


def lifetimes(tape: Tape) -> dict[int, tuple[int, int]]:
    """Return the half-open lifetime of each storage that is read, written, returned or stored."""
    lives: dict[int, tuple[int, int]] = {}
    end = len(tape.ops)
    for position, op in enumerate(tape.ops):
        for index in (*op.reads, *op.writes):
            lives[index] = (lives.get(index, (position, 0))[0], position + 1)
    for binding in (*tape.outputs, *tape.state_out):
        if isinstance(binding.value, View):
            index = binding.value.storage
            lives[index] = (lives.get(index, (end, 0))[0], end + 1)
    return lives


def buffers(tape: Tape, planned: Sequence[int]) -> list[Buffer]:
    """Return the planned storages of a tape as buffers, in the given order; one that is never used has no lifetime."""
    lives = lifetimes(tape)
    return [Buffer(f"{index}", tape.storages[index].size_bytes, *lives.get(index, (0, 0))) for index in planned]
