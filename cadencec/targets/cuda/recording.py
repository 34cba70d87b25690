"""One tape, captured twice: a graph without addresses, its buffers, and the bytes that it needs around it."""

import ctypes
import gc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch

from cadence_runtime.cuda.bindings import call
from cadence_runtime.errors import CadenceError, TargetError
from cadence_runtime.format.tape import Tape
from cadencec.targets.cuda.allocator import Buffer, RecordingAllocator
from cadencec.targets.cuda.capture import DEVICE, Bench, Captured, Job
from cadencec.targets.cuda.globals import LiveGlobal, holders, live_globals
from cadencec.targets.cuda.nodes import RawKernel, read_graph, set_params
from cadencec.targets.cuda.placement import FOREIGN, LIBRARY, SCRATCH, OutsideMemory, Placement, Resolver
from cadencec.targets.cuda.proof import prove
from cadencec.targets.cuda.relocate import FreeGraph, FreeKernel, Place, Recorded, relocate

PHILOX_WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class ScratchBuffer:
    """A buffer that a capture made: `lower` and `upper` are the half-open range of nodes that touch it."""

    number: int
    size_bytes: int
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class OutsideBuffer:
    """Memory of a library that the graph or a device variable points to, with its bytes."""

    number: int
    content: bytes


@dataclass(frozen=True, slots=True)
class IdleBuffer:
    """Memory of a library that words of the graph lead into, and that a replay neither reads nor writes."""

    number: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Philox:
    """Buffers that hold the generator's seed and offset (eight bytes each), and what a replay adds to the offset."""

    seed: int
    offset: int
    step: int


@dataclass(frozen=True, slots=True)
class CudaRecording:
    """A captured tape. `ops[i]` is the tape op of node i; the number of ops stands for the stores behind them.
    `images` are the digests of the images of the graph's kernels, by kernel name."""

    graph: FreeGraph
    ops: tuple[int, ...]
    scratch: tuple[ScratchBuffer, ...]
    outside: tuple[OutsideBuffer, ...]
    images: Mapping[str, str]
    globals: tuple[LiveGlobal, ...]
    philox: Philox | None
    idle: tuple[IdleBuffer, ...] = ()


class CudaRecorder:
    """Records tapes one after the other on one stream. Between two tapes the recording range is rewound, so that
    memory stays bounded by one of them."""

    def __init__(self, allocator: RecordingAllocator, images: Mapping[str, bytes]) -> None:
        self.allocator, self.images = allocator, images
        self.bench = Bench()
        # As long as one graph has registered the generator, torch keeps its words where they are.
        self._keeper = torch.cuda.CUDAGraph()
        self._keeper.register_generator_state(torch.cuda.default_generators[DEVICE.index])

    def record(self, job: Job, placements: tuple[Placement, Placement]) -> CudaRecording:
        """Capture a tape at two placements."""
        mapped_bytes = self.allocator.mapped_bytes
        for placement in placements:
            self.bench.run(job, placement)
        self.allocator.recording = True
        try:
            recording = self._record(job, placements)
        finally:
            self.allocator.recording = False
        torch.cuda.synchronize()
        if self.allocator.mapped_bytes > mapped_bytes:
            gc.collect()  # what only cycles hold would stay on the device, and the next tape would take more
        self.allocator.trim()
        return recording

    def _record(self, job: Job, placements: tuple[Placement, Placement]) -> CudaRecording:
        outside = OutsideMemory()
        start = self.allocator.mark()
        first, captured = self._capture(job, placements[0], outside)
        scratch = self.allocator.buffers[start:]
        second, again = self._capture(job, placements[1], outside)
        tape, positions = job.tape, first.graph.positions
        common = relocate(first, second, lambda node: op_name(tape, captured.op_of(positions[node])))
        again.graph.reset()
        graph = common.graph
        set_params(captured.graph.raw_cuda_graph(), {positions[node]: raw for node, raw in common.cleared.items()})
        named = {kernel.name: kernel for kernel in kernels_of(graph)}
        images = {name: choose_image(self.images, kernel) for name, kernel in named.items()}
        variables = tuple(self._variables(graph, images, first))
        pointed = _outside_numbers(graph, variables)
        library = [buffer for index, buffer in enumerate(outside.library) if LIBRARY + index in pointed]
        self.allocator.recording = False  # all addresses are told: what the proof needs for itself is used again
        try:
            proof = prove(self.bench, job, placements[0], captured, library, scratch)
        except (CadenceError, RuntimeError) as error:  # a launch that follows a zero breaks the device, too
            raise common.stale or error from None
        numbers = sorted(number for number in pointed if number < FOREIGN)  # of `library`, in its order
        idle = {number for position, number in enumerate(numbers) if position in proof.idle}
        philox = _find_philox(captured, graph, outside.library, scratch) if tape.draws else None
        words = {philox.seed, philox.offset} if philox else set()
        return CudaRecording(
            graph=graph,
            ops=tuple(captured.op_of(position) for position in positions),
            scratch=tuple(scratch_lifetimes(graph, scratch, words)),
            outside=tuple(_contents(pointed - words - idle, outside, proof.zeroed)),
            idle=tuple(IdleBuffer(number, outside.range_of(number)[1]) for number in sorted(idle - words)),
            images=images,
            globals=variables,
            philox=philox,
        )

    def _capture(self, job: Job, placement: Placement, outside: OutsideMemory) -> tuple[Recorded, Captured]:
        mark = self.allocator.mark()
        captured = self.bench.capture(job, placement)
        resolve = Resolver(placement, mark, outside)
        graph = read_graph(captured.graph.raw_cuda_graph(), lambda node: op_name(job.tape, captured.op_of(node)))
        return Recorded(graph, resolve, resolve.describe), captured

    def _variables(self, graph: FreeGraph, images: Mapping[str, str], first: Recorded) -> Iterator[LiveGlobal]:
        """Yield the changed device variables of every image of the graph, once an image."""
        seen = set()
        for kernel in kernels_of(graph):
            digest = images[kernel.name]
            if digest not in seen:
                seen.add(digest)
                yield from live_globals(digest, self.images[digest], kernel.function, first.resolve)


def op_name(tape: Tape, index: int) -> str:
    """Name an op of a tape for a message or a plan; the index behind the last op is the storing of results."""
    if index == len(tape.ops):
        return "storing the results"
    return f"{tape.ops[index].name} {tape.ops[index].source}".strip()


def kernels_of(graph: FreeGraph) -> Iterator[RawKernel]:
    """Yield the launches of a graph, in order."""
    return (node.raw for node in graph.nodes if isinstance(node, FreeKernel))


def choose_image(images: Mapping[str, bytes], kernel: RawKernel) -> str:
    """Return the digest of the image that a kernel comes from."""
    found = holders(images, kernel.name)
    if len(found) == 1:
        return found[0]
    raise TargetError(
        "CAD4116",
        f"the image of kernel `{kernel.name}` is not certain",
        expected="one loaded image that defines it",
        got=f"{len(found)}",
        hint="the process loaded two versions of one library"
        if found
        else "its module was loaded before the compiler began",
    )


def _find_philox(captured: Captured, graph: FreeGraph, library: list[Buffer], scratch: list[Buffer]) -> Philox:
    """Find the generator's words by replaying once with a seed and an offset that nothing else holds."""
    generator = torch.cuda.default_generators[DEVICE.index]
    before = generator.get_state()
    seed, offset = 0x5EED_5EED_1234_5678, 0x0FF5_E700
    generator.manual_seed(seed)
    generator.set_offset(offset)
    captured.graph.replay()
    torch.cuda.synchronize()
    step = generator.get_offset() - offset
    generator.set_state(before)
    words = {}
    for number in {pointer.buffer for pointer in graph.pointers if pointer.buffer >= LIBRARY}:
        buffer = scratch[number - SCRATCH] if number >= SCRATCH else library[number - LIBRARY]
        if buffer.size_bytes == PHILOX_WORD_BYTES:
            words[int.from_bytes(_download(buffer.address, PHILOX_WORD_BYTES), "little")] = number
    return match_philox(words, seed, offset, step)


def match_philox(words: Mapping[int, int], seed: int, offset: int, step: int) -> Philox:
    """Return where seed and offset stand, given the number of the buffer behind each word that was found. Raises
    TargetError CAD4115."""
    if seed in words and offset in words:
        return Philox(words[seed], words[offset], step)
    raise TargetError(
        "CAD4115",
        "the generator's words of a capture that draws were not found",
        expected="two buffers of 8 bytes that torch fills before a replay",
        got=f"{len(words)} buffers of 8 bytes",
        hint="declare the noise as an input of the stage",
    )


def scratch_lifetimes(graph: FreeGraph, scratch: list[Buffer], words: set[int]) -> Iterator[ScratchBuffer]:
    """Yield the scratch buffers that a graph points to, but not the generator's words, with the nodes between the
    first and the last that do."""
    touched: dict[int, list[int]] = {}
    for pointer in graph.pointers:
        if pointer.buffer >= SCRATCH and pointer.buffer not in words:
            touched.setdefault(pointer.buffer, []).append(pointer.node)
    for number in sorted(touched):
        nodes = touched[number]
        yield ScratchBuffer(number, scratch[number - SCRATCH].size_bytes, min(nodes), max(nodes) + 1)


def _outside_numbers(graph: FreeGraph, variables: Iterable[LiveGlobal]) -> set[int]:
    places: list[Place] = [(pointer.buffer, pointer.offset) for pointer in graph.pointers]
    places += [place for variable in variables for _, place in variable.pointers]
    return {number for number, _ in places if LIBRARY <= number < SCRATCH}


def _contents(numbers: Iterable[int], outside: OutsideMemory, zeroed: bool) -> Iterator[OutsideBuffer]:
    for number in sorted(numbers):
        address, size = outside.range_of(number)
        yield OutsideBuffer(number, bytes(size) if zeroed and number < FOREIGN else _download(address, size))


def _download(address: int, size: int) -> bytes:
    host = ctypes.create_string_buffer(size)
    call("cuMemcpyDtoH", ctypes.addressof(host), address, size)
    return host.raw
