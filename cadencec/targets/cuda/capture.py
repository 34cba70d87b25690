"""Capturing a tape as a CUDA graph at one placement.

The ops run on the placement's buffers; then the outputs are copied out and the new state is stored, every new leaf
being computed before any slot is written. A capture is prepared by one run outside of it, so that libraries make their
plans, handles and workspaces before.
"""

import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from cuda.bindings import driver as cu
from torch import Tensor

from cadence_runtime.cuda.bindings import call
from cadence_runtime.format.plan import TensorForm
from cadence_runtime.format.tape import Tape, View
from cadencec.targets.cuda.placement import Placement, SlotName
from cadencec.trace.interpret import Memory
from cadencec.trace.neutral import no_collection

DEVICE = torch.device("cuda", 0)


@dataclass(frozen=True, slots=True)
class Stores:
    """What a capture leaves behind: for each output its contiguous form (None for a literal), for each new leaf the
    name of the slot's leaf and the form that it takes there (None for a literal)."""

    outputs: tuple[TensorForm | None, ...]
    leaves: tuple[tuple[str, TensorForm] | None, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A tape to capture: its host constants by digest, its stores, valid bytes of inputs and leaf slots (1-D uint8
    tensors) to run it on, and for each leaf that it reads the leaf whose slot that one lies in."""

    tape: Tape
    host: Mapping[str, Tensor]
    stores: Stores
    sample: Mapping[SlotName, Tensor]
    owners: Mapping[str, str]


@dataclass(slots=True)
class Captured:
    """A captured graph. `boundaries[i]` is the number of nodes there were before op i; `alive` keeps the capture's
    tensors, whose addresses the graph holds."""

    graph: torch.cuda.CUDAGraph
    boundaries: list[int]
    alive: list[Any]

    def op_of(self, node: int) -> int:
        """Return the op that made a node; the last index stands for the stores behind the ops."""
        return bisect_right(self.boundaries, node) - 1


class Bench:
    """One stream, used for every capture of a plan, and the memory of tapes bound to a placement."""

    def __init__(self) -> None:
        self.stream: torch.cuda.Stream = torch.cuda.Stream(DEVICE)  # type: ignore[no-untyped-call]

    def run(self, job: Job, placement: Placement) -> None:
        """Run a tape on its sample, outside of a capture."""
        refill(placement, job.sample)
        torch.cuda.synchronize()
        with torch.no_grad(), torch.cuda.stream(self.stream):
            _play(job, placement, None)
        self.stream.synchronize()

    def capture(self, job: Job, placement: Placement) -> Captured:
        """Capture a tape."""
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        boundaries: list[int] = []
        # The garbage collector could destroy a graph, an event or a handle inside of the capture, which ends it.
        with torch.no_grad(), no_collection(), warnings.catch_warnings(), torch.cuda.stream(self.stream):
            warnings.filterwarnings("ignore", "The CUDA Graph is empty")  # a start may be all constants, or nothing
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                alive = _play(job, placement, boundaries)
            finally:
                graph.capture_end()
        return Captured(graph, boundaries, alive)


def refill(placement: Placement, sample: Mapping[SlotName, Tensor]) -> None:
    """Give inputs and leaves the bytes of a sample, in the order of the current stream."""
    for name, data in sample.items():
        placement.storages[name][: data.numel()].copy_(data)


def _play(job: Job, placement: Placement, boundaries: list[int] | None) -> list[Any]:
    """Run ops and stores on the current stream; return everything that has to stay alive."""
    memory = Memory(job.tape.storages, DEVICE)
    _bind(memory, placement, job)
    for op in job.tape.ops:
        if boundaries is not None:
            boundaries.append(_nodes_so_far())
        memory.run(op)
    if boundaries is not None:
        boundaries.append(_nodes_so_far())
    staged = _store(job.tape, memory, placement, job.stores)
    return [memory, staged]


def _bind(memory: Memory, placement: Placement, job: Job) -> None:
    for index, storage in enumerate(memory.storages):
        if storage.kind == "scratch":
            continue
        if storage.host:
            memory.bind(index, job.host[storage.name])
        else:
            name = job.owners[storage.name] if storage.kind == "leaf" else storage.name
            memory.bind(index, placement.storages[SlotName(storage.kind, name)])


def _store(tape: Tape, memory: Memory, placement: Placement, stores: Stores) -> list[Tensor]:
    """Copy outputs out and new leaves into their slots. A new leaf that still lies in a slot is set aside first."""
    staged = [_staged(tape, memory, binding.value) for binding in tape.state_out]
    for binding, form in zip(tape.outputs, stores.outputs, strict=True):
        if form is not None and isinstance(binding.value, View):
            _typed(placement, SlotName("output", binding.name), form).copy_(memory.view(binding.value))
    for value, binding, store in zip(staged, tape.state_out, stores.leaves, strict=True):
        if store is None or value is None:
            continue
        slot = _typed(placement, SlotName("leaf", store[0]), store[1])
        if isinstance(binding.value, View) and _same_bytes(slot, memory.view(binding.value)):
            continue
        slot.copy_(value)
    return [value for value in staged if value is not None]


def _staged(tape: Tape, memory: Memory, value: object) -> Tensor | None:
    if not isinstance(value, View):
        return None
    tensor = memory.view(value)
    return tensor.clone() if tape.storages[value.storage].kind == "leaf" else tensor


def _same_bytes(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are the same window on the same memory."""
    return (one.data_ptr(), one.shape, one.stride(), one.dtype) == (
        other.data_ptr(),
        other.shape,
        other.stride(),
        other.dtype,
    )


def _typed(placement: Placement, name: SlotName, form: TensorForm) -> Tensor:
    """Return a buffer's bytes as a tensor of the given form."""
    storage = placement.storages[name].untyped_storage()
    tensor = torch.empty(0, dtype=getattr(torch, form.dtype), device=DEVICE)
    return tensor.set_(storage, form.offset, form.sizes, form.strides)


def _nodes_so_far() -> int:
    """Return how many nodes the running capture of the current stream has."""
    status = call("cuStreamGetCaptureInfo", cu.CUstream(torch.cuda.current_stream().cuda_stream))
    graph: Sequence[Any] = call("cuGraphGetNodes", status[2], 0)
    return int(graph[1])
