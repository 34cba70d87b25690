"""Proof that a capture computes what its tape computes, from nothing but the bytes that the plan will hold.

All scratch is poisoned and what libraries keep in the recording range is zeroed before the replay. What differs then
was read before it was written; library buffers get their bytes back and are tried again, so that a plan holds no more
of them than it must. Before, each of them is poisoned by itself: one that the replay leaves so, and that changes no
result, needs no room. All bytes stay on the device, and the host waits for one answer a replay.
"""

from collections.abc import Mapping, Sequence
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
    expected = {name: data.clone() for name, data in results(placement).items()}
    captured.graph.instantiate()
    kept: list[Tensor | int] = [_copied(buffer) for buffer in library]

    def differing(contents: Sequence[Tensor | int]) -> list[str]:
        """Replay on some bytes of the library's buffers, all scratch poisoned; return what differs."""
        for content, buffer in zip(contents, library, strict=True):
            _fill(buffer, content)
        for buffer in scratch:
            _fill(buffer, POISON)
        refill(placement, job.sample)
        torch.cuda.default_generators[DEVICE.index].set_state(start)
        captured.graph.replay()
        found = results(placement)
        return _true_of({name.name: (found[name] != data).any() for name, data in expected.items()})

    idle = set()
    for position, buffer in enumerate(library):
        poisoned = [*kept[:position], POISON, *kept[position + 1 :]]
        if not differing(poisoned) and bool((_copied(buffer) == POISON).all()):
            idle.add(position)
    zeroed = not differing([0] * len(kept))
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
    """Return the bytes of all outputs and leaf slots, where they lie."""
    return {name: data for name, data in placement.storages.items() if name.kind in ("output", "leaf")}


def _true_of(answers: Mapping[str, Tensor]) -> list[str]:
    """Return the names whose answer, a tensor of one bool each, is true; all are fetched together."""
    told = torch.stack([*answers.values()]).tolist() if answers else []
    return [name for name, is_true in zip(answers, told, strict=True) if is_true]


def _copied(buffer: Buffer) -> Tensor:
    """Return the bytes of a buffer in a tensor of its own on the device."""
    content = torch.empty(buffer.size_bytes, dtype=torch.uint8, device=DEVICE)
    call("cuMemcpyDtoD", content.data_ptr(), buffer.address, buffer.size_bytes)
    return content


def _fill(buffer: Buffer, content: Tensor | int) -> None:
    """Give a buffer the bytes of a tensor on the device, or one value throughout."""
    if isinstance(content, int):
        call("cuMemsetD8", buffer.address, content, buffer.size_bytes)
    else:
        call("cuMemcpyDtoD", buffer.address, content.data_ptr(), buffer.size_bytes)
