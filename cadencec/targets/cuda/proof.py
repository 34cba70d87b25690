"""Proof that a capture computes what its tape computes, from nothing but the bytes that the plan will hold.

All scratch is poisoned and what libraries keep in the recording range is zeroed before the replay. What differs then
was read before it was written; library buffers get their bytes back and are tried again, so that a plan holds no more
of them than it must.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from cadence_runtime.cuda.bindings import call
from cadence_runtime.errors import TargetError
from cadencec.targets.cuda.allocator import Buffer
from cadencec.targets.cuda.capture import DEVICE, Bench, Captured, Job, refill
from cadencec.targets.cuda.placement import Placement, SlotName

POISON = 0xC7


def prove(
    bench: Bench,
    job: Job,
    placement: Placement,
    captured: Captured,
    library: Sequence[Buffer],
    scratch: Sequence[Buffer],
) -> bool:
    """Return whether zeros serve for the library's buffers. Raises TargetError CAD4117 when the replay differs from
    the tape even with the bytes they had. Instantiates the graph."""
    generator = torch.cuda.default_generators[DEVICE.index]
    start = generator.get_state()
    bench.run(job, placement)
    expected = results(placement)
    captured.graph.instantiate()
    kept = [_download(buffer) for buffer in library]
    differing: list[str] = []
    for zeroed in (True, False):
        for content, buffer in zip(kept, library, strict=True):
            _upload(buffer, torch.zeros_like(content) if zeroed else content)
        for buffer in scratch:
            call("cuMemsetD8", buffer.address, POISON, buffer.size_bytes)
        refill(placement, job.sample)
        generator.set_state(start)
        captured.graph.replay()
        found = results(placement)
        differing = [name.name for name in expected if not torch.equal(expected[name], found[name])]
        if not differing:
            return zeroed
    raise unequal(job.tape.stage, differing)


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
