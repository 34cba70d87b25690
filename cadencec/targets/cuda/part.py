"""From recordings to the CUDA part of a plan: buffers get arena offsets, pointers become relocations, and what several
captures share is stored once.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cadence_runtime.format.cuda import (
    CudaPart,
    DeviceGlobal,
    Graph,
    GraphNode,
    Kernel,
    KernelImage,
    KernelNode,
    Launch,
    Relocation,
    Snapshot,
)
from cadence_runtime.format.tape import Tape
from cadence_runtime.format.templates import GraphsBuilder
from cadencec.targets.cuda.nodes import RawKernel
from cadencec.targets.cuda.recording import CudaRecording, op_name
from cadencec.targets.cuda.relocate import FreeKernel, FreeNode

STATIC_SHARED_BYTES = 48 << 10
ALIGNMENT = 256
PHILOX_BYTES = 16


@dataclass(frozen=True, slots=True)
class PlacedRecording:
    """A recording and where its buffers stand: arena offsets of its named buffers by number, and of its scratch by
    number, both in bytes from the arena's start."""

    recording: CudaRecording
    tape: Tape
    slots: Sequence[int]
    scratch: Mapping[int, int]


@dataclass(slots=True)
class PartBuilder:
    """Collects the recordings of a plan. `images` returns an image by its digest; `add_blob` stores bytes and
    returns their index; `reserve` returns the arena offset of so many bytes in the constants section."""

    images: Callable[[str], bytes]
    libraries: Callable[[bytes], str]
    add_blob: Callable[[bytes], int]
    reserve: Callable[[int], int]
    _images: dict[str, int] = field(default_factory=dict)
    _kernels: dict[tuple[int, str], int] = field(default_factory=dict)
    _image_rows: list[KernelImage] = field(default_factory=list)
    _kernel_rows: list[Kernel] = field(default_factory=list)
    _globals: dict[tuple[int, str], DeviceGlobal] = field(default_factory=dict)
    _snapshots: dict[tuple[str, int], Snapshot] = field(default_factory=dict)
    _graphs: GraphsBuilder = field(default_factory=GraphsBuilder)
    _philox_offset: int | None = None

    def add(self, placed: PlacedRecording) -> None:
        """Add the next graph of the plan."""
        recording = placed.recording
        offsets = self._offsets(placed)
        for variable in recording.globals:
            image = self._image(variable.image)
            pointers = tuple((at, offsets[number] + offset) for at, (number, offset) in variable.pointers)
            self._globals[image, variable.name] = DeviceGlobal(image, variable.name, variable.data, pointers)
        op_numbers = {op: index for index, op in enumerate(sorted(set(recording.ops)))}
        nodes = tuple(self._node(node, recording) for node in recording.graph.nodes)
        relocations = tuple(
            Relocation(pointer.node, pointer.word, offsets[pointer.buffer] + pointer.offset)
            for pointer in recording.graph.pointers
        )
        names = tuple(op_name(placed.tape, op) for op in op_numbers)
        node_ops = tuple(op_numbers[op] for op in recording.ops)
        philox = None
        if recording.philox is not None and self._philox_offset is not None:
            philox = (self._philox_offset, recording.philox.step)
        self._graphs.add(Graph(nodes, relocations, recording.graph.edges, names, node_ops, philox))

    def finish(
        self, base: int, compute_capability: tuple[int, int], driver: int, launches: tuple[Launch, ...]
    ) -> CudaPart:
        """Return the part. `launches` are left out where each capture is the graph of its number."""
        plain = launches == tuple(map(Launch, range(len(self._graphs))))
        return CudaPart(
            base=base,
            compute_capability=compute_capability,
            driver=driver,
            images=tuple(self._image_rows),
            globals=tuple(self._globals[key] for key in sorted(self._globals)),
            kernels=tuple(self._kernel_rows),
            graphs=self._graphs.finish(),
            snapshots=tuple(self._snapshots.values()),
            launches=() if plain else launches,
        )

    def _offsets(self, placed: PlacedRecording) -> dict[int, int]:
        """Return the arena offset of every buffer of a recording, by number."""
        offsets = dict(enumerate(placed.slots)) | dict(placed.scratch)
        seen: dict[str, int] = {}
        for buffer in placed.recording.outside:
            digest = hashlib.sha256(buffer.content).hexdigest()
            seen[digest] = seen.get(digest, -1) + 1
            offsets[buffer.number] = self._snapshot(digest, seen[digest], buffer.content).offset
        philox = placed.recording.philox
        if philox is not None:
            if self._philox_offset is None:
                self._philox_offset = self.reserve(PHILOX_BYTES)
            offsets[philox.seed] = self._philox_offset
            offsets[philox.offset] = self._philox_offset + PHILOX_BYTES // 2
        return offsets

    def _snapshot(self, digest: str, ordinal: int, content: bytes) -> Snapshot:
        """Return the snapshot of some bytes; the n-th equal one of a capture is the n-th of every capture, since
        captures run one at a time."""
        key = (digest, ordinal)
        if key not in self._snapshots:
            blob = self.add_blob(content) if any(content) else None
            name = f"library.{len(self._snapshots)}"
            self._snapshots[key] = Snapshot(name, self.reserve(len(content)), len(content), blob)
        return self._snapshots[key]

    def _image(self, digest: str) -> int:
        if digest not in self._images:
            self._images[digest] = len(self._image_rows)
            content = self.images(digest)
            self._image_rows.append(KernelImage(digest, self.add_blob(content), self.libraries(content)))
        return self._images[digest]

    def _kernel(self, raw: RawKernel, image: int) -> int:
        attributes = tuple((name, value) for name, value in raw.function_attributes if _matters(name, value))
        key = (image, raw.name)
        if key not in self._kernels:
            self._kernels[key] = len(self._kernel_rows)
            self._kernel_rows.append(Kernel(image, raw.name, raw.param_offsets, raw.param_sizes, attributes))
        index = self._kernels[key]
        merged = dict(self._kernel_rows[index].attributes)
        for name, value in attributes:
            merged[name] = max(value, merged.get(name, value))
        self._kernel_rows[index] = replace(self._kernel_rows[index], attributes=tuple(sorted(merged.items())))
        return index

    def _node(self, node: FreeNode, recording: CudaRecording) -> GraphNode:
        if not isinstance(node, FreeKernel):
            return node
        raw = node.raw
        kernel = self._kernel(raw, self._image(recording.images[raw.name]))
        return KernelNode(kernel, raw.grid, raw.block, raw.shared_bytes, node.params, raw.attributes)


MAX_DYNAMIC_SHARED, CARVEOUT, NON_PORTABLE_CLUSTER = 8, 9, 13
"""CUfunction_attribute numbers."""


def _matters(attribute: int, value: int) -> bool:
    """Return whether a function attribute differs from what every function starts with."""
    if attribute == MAX_DYNAMIC_SHARED:
        return value > STATIC_SHARED_BYTES
    return value != -1 if attribute == CARVEOUT else value != 0
