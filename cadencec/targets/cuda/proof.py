"""Proof that a capture computes what its tape computes, from nothing but the bytes that the plan will hold.

All scratch is poisoned and what libraries keep in the recording range is zeroed before the replay. What differs then
was read before it was written; library buffers get their bytes back and are tried again, so that a plan holds no more
of them than it must. Before, each of them is poisoned by itself: one that the replay leaves so, and that changes no
result, needs no room.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cadence_runtime.cuda.bindings import call
from cadence_runtime.errors import TargetError
from cadencec.targets.cuda.allocator import Buffer
from cadencec.targets.cuda.capture import DEVICE, Bench, Captured, Job, refill
from cadencec.targets.cuda.placement import Placement, SlotName

POISON = 0xC7


@dataclass(frozen=True, slots=True)
class Proof:
    """What a replay needs of the library's buffers: whether zeros serve for their bytes, and the positions of those
    that it neither reads nor writes. A word that looks like a pointer to such a buffer is none, or one that the kernel
    does not follow."""

    zeroed: bool
    idle: frozenset[int]


def prove(
    bench: Bench,
    job: Job,
    placement: Placement,
    captured: Captured,
    library: Sequence[Buffer],
    scratch: Sequence[Buffer],
) -> Proof:
    """Return what the capture needs. Raises TargetError CAD4117 when the replay differs from the tape even with the
    bytes that the library's buffers had. Instantiates the graph."""
    start = torch.cuda.default_generators[DEVICE.index].get_state()
    bench.run(job, placement)
    expected = results(placement)
    captured.graph.instantiate()
    kept = [_download(buffer) for buffer in library]

    def differing(contents: Sequence[Tensor]) -> list[str]:
        """Replay on some bytes of the library's buffers, all scratch poisoned; return what differs."""
        for content, buffer in zip(contents, library, strict=True):
            _upload(buffer, content)
        for buffer in scratch:
            call("cuMemsetD8", buffer.address, POISON, buffer.size_bytes)
        refill(placement, job.sample)
        torch.cuda.default_generators[DEVICE.index].set_state(start)
        captured.graph.replay()
        found = results(placement)
        return [name.name for name in expected if not torch.equal(expected[name], found[name])]

    idle = set()
    for position, buffer in enumerate(library):
        poison = torch.full_like(kept[position], POISON)
        if not differing([*kept[:position], poison, *kept[position + 1 :]]) and torch.equal(_download(buffer), poison):
            idle.add(position)
    zeroed = not differing([torch.zeros_like(content) for content in kept])
    wrong = [] if zeroed else differing(kept)
    if wrong:
        raise unequal(job.tape.stage, wrong)
    return Proof(zeroed, frozenset(idle))


def unequal(stage: str, differing: Sequence[str]) -> TargetError:
    """Return what to say of outputs and leaf slots that a replay left with other bits."""
    return TargetError(
        "CAD4117",
        "a capture replays other bits than its tape",
        expected="equal outputs and state",
        got=", ".join(f"`{name}` differs" for name in differing),
        at=f"stage `{stage}`",
        hint="a kernel reads memory that nothing in the capture writes",
    )


def results(placement: Placement) -> dict[SlotName, Tensor]:
    """Return the bytes of all outputs and leaf slots, on the host."""
    torch.cuda.synchronize()
    kinds = ("output", "leaf")
    return {name: data.cpu() for name, data in placement.storages.items() if name.kind in kinds}


def _download(buffer: Buffer) -> Tensor:
    content = torch.empty(buffer.size_bytes, dtype=torch.uint8)
    call("cuMemcpyDtoH", content.data_ptr(), buffer.address, buffer.size_bytes)
    return content


def _upload(buffer: Buffer, content: Tensor) -> None:
    call("cuMemcpyHtoD", buffer.address, content.data_ptr(), buffer.size_bytes)
