"""From captures to a plan: sections behind the common ones, graphs, and how each capture is launched.

arena   | weights | constants | state | io |  scratch | rows | library |
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cadence_runtime.cuda.compatibility import KERNELS_BYTES
from cadence_runtime.cuda.driver import DeviceInfo
from cadence_runtime.format.cubin import read_cubin
from cadence_runtime.format.cuda import CudaPart, Launch
from cadence_runtime.format.plan import Capture, Plan, Section
from cadence_runtime.format.tape import ITEM_BYTES, Binding, Storage, Tape, View
from cadencec.arena.planner import Buffer, Packing, aligned
from cadencec.arena.planner import plan as pack
from cadencec.targets.cuda.cache import CaptureCache
from cadencec.targets.cuda.entry import Summary
from cadencec.targets.cuda.libraries import library_of
from cadencec.targets.cuda.nameless import Use
from cadencec.targets.cuda.part import PartBuilder, PlacedRecording
from cadencec.targets.cuda.placement import SlotName
from cadencec.targets.cuda.recording import ScratchBuffer
from cadencec.targets.cuda.rows import Member, Rows, moves, rows_of

PAGE_BYTES = 2 << 20
"""The driver takes device memory in pages of this size."""
FIRST_KERNEL_BYTES = 90 << 20
"""What the driver takes with the first kernel, whichever it is (measured on an H200)."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A graph in the cache: its tape, and what to know of it before it is read."""

    tape: Tape
    summary: Summary


@dataclass(frozen=True, slots=True)
class Made:
    """A capture of the plan: the key of its graph in the cache, and what the graph's buffers are for it."""

    key: str
    uses: tuple[Use, ...]


def finish(
    plan: Plan, graphs: Mapping[str, Captured], made: Sequence[Made], cache: CaptureCache, info: DeviceInfo, base: int
) -> Plan:
    """Return the plan with its graphs, by key in the order of their first captures; `base` is the address that they
    were recorded at. Tapes only say what a stage's interface is."""
    packings = {key: pack(_buffers(graph.summary.scratch)) for key, graph in graphs.items()}
    sections = [section for section in plan.sections if section.name != "scratch"]
    idle_bytes = max((buffer.size_bytes for graph in graphs.values() for buffer in graph.summary.idle), default=0)
    sections.append(_scratch(_end(sections), list(packings.values()), idle_bytes))
    arena = _Arena(plan)
    members = [arena.member(capture, one.uses) for capture, one in zip(plan.captures, made, strict=True)]
    of_graph: dict[str, list[Member]] = {key: [] for key in graphs}
    for member, one in zip(members, made, strict=True):
        of_graph[one.key].append(member)
    rows = {key: rows_of(found) for key, found in of_graph.items()}
    rows_at, rows_bytes = _end(sections), max(row.size_bytes for row in rows.values())
    if rows_bytes:
        sections.append(Section("rows", rows_at, rows_bytes, rows_bytes, "in a row"))
    library = Library(_end(sections), list(plan.blobs))
    builder = PartBuilder(cache.object, library_of, library.add_blob, library.reserve)
    scratch_at = sections[-2 if rows_bytes else -1].offset
    for key, graph in graphs.items():
        slots = _slots(of_graph[key][0], rows[key], rows_at)
        builder.add(PlacedRecording(cache.taken(key), graph.tape, slots, _scratch_of(graph, packings[key], scratch_at)))
    numbers = {key: number for number, key in enumerate(graphs)}
    launches = tuple(
        Launch(numbers[one.key], *moves(member, rows[one.key], rows_at))
        for member, one in zip(members, made, strict=True)
    )
    sections.append(Section("library", library.lower, library.size_bytes, library.size_bytes, "in a row"))
    tapes, tape_of = _interfaces(plan)
    part = builder.finish(base, info.compute_capability, info.driver, launches)
    predicted = (KERNELS_BYTES, str(kernels_bytes(part, library.blobs, info.threads)))
    return replace(
        plan,
        target="cuda",
        provenance=replace(plan.provenance, environment=tuple(sorted((*plan.provenance.environment, predicted)))),
        tapes=tapes,
        captures=tuple(replace(capture, tape=tape_of[capture.tape], scratch=()) for capture in plan.captures),
        sections=tuple(sections),
        blobs=tuple(library.blobs),
        cuda=part,
    )


def kernels_bytes(part: CudaPart, blobs: Sequence[bytes] | Mapping[int, bytes], threads: int) -> int:
    """Return what kernels will take on the device beside executables. With the first kernel the driver takes local
    memory for all threads that the device holds at once, and more where a kernel has more; and it takes code."""
    images = [read_cubin(blobs[image.blob]) for image in part.images]
    kernels = [(images[kernel.image], kernel.name) for kernel in part.kernels]
    local = threads * max((image.local_bytes(name) for image, name in kernels), default=0)
    code = sum(image.code_bytes(name) for image, name in kernels)
    return max(FIRST_KERNEL_BYTES, _pages(local)) + _pages(code)


def _pages(size_bytes: int) -> int:
    return -(-size_bytes // PAGE_BYTES) * PAGE_BYTES


def _scratch(offset: int, packings: Sequence[Packing], idle_bytes: int) -> Section:
    """Return the section that all graphs share: they run one at a time. Pointers to what is not used lead into it."""
    tallest = max(packings, key=lambda packing: packing.height_bytes)
    bound = max(idle_bytes, *(packing.lower_bound_bytes for packing in packings))
    return Section("scratch", offset, max(tallest.height_bytes, idle_bytes), bound, tallest.method)


def _scratch_of(graph: Captured, packing: Packing, section: int) -> dict[int, int]:
    """Return the arena offsets of a graph's scratch, by the buffer's number."""
    offsets = (section + offset for offset in packing.offsets)
    placed = dict(zip((buffer.number for buffer in graph.summary.scratch), offsets, strict=True))
    return placed | {buffer.number: section for buffer in graph.summary.idle}


def _slots(member: Member, rows: Rows, section: int) -> list[int]:
    """Return the arena offsets of a graph's named buffers: those that move are in the section of rows."""
    return [section + rows.offsets[n] if n in rows.offsets else place for n, place in enumerate(member.places)]


@dataclass(slots=True)
class Library:
    """The last section of the arena, and the blobs of the plan, both growing."""

    lower: int
    blobs: list[bytes]
    size_bytes: int = 0
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = {blob: number for number, blob in enumerate(self.blobs)}

    def add_blob(self, content: bytes) -> int:
        number = self._numbers.setdefault(content, len(self.blobs))
        if number == len(self.blobs):
            self.blobs.append(content)
        return number

    def reserve(self, size_bytes: int) -> int:
        offset = self.lower + self.size_bytes
        self.size_bytes += aligned(size_bytes)
        return offset


def _buffers(scratch: Sequence[ScratchBuffer]) -> list[Buffer]:
    return [Buffer(str(b.number), b.size_bytes, b.lower, b.upper) for b in scratch]


def _end(sections: Sequence[Section]) -> int:
    return max(section.offset + aligned(section.size_bytes) for section in sections)


class _Arena:
    """Where the named buffers of captures stand in a plan's arena."""

    def __init__(self, plan: Plan) -> None:
        base = {section.name: section.offset for section in plan.sections}
        self._io, self._tapes = base["io"], plan.tapes
        self._fixed: dict[SlotName, int] = {
            **{SlotName("weight", row.name): base["weights"] + row.offset for row in plan.weights},
            **{SlotName("constant", row.sha256): base["constants"] + row.offset for row in plan.constants},
            **{SlotName("leaf", row.path): base["state"] + row.slot_offset for row in plan.leaves},
        }

    def member(self, capture: Capture, uses: tuple[Use, ...]) -> Member:
        """Return a capture with the arena offsets of what it uses."""
        return Member(uses, tuple(self.offset(capture, use.name) + use.lower for use in uses))

    def offset(self, capture: Capture, name: SlotName) -> int:
        """Return the arena offset of a named buffer of a capture."""
        tape = self._tapes[capture.tape]
        match name.kind:
            case "input":
                return self._io + capture.input_offsets[_position(tape.inputs, name.name)]
            case "output":
                return self._io + capture.output_offsets[_position(tape.outputs, name.name)]
            case _:
                return self._fixed[name]


def _position(bindings: Sequence[Binding], name: str) -> int:
    return next(index for index, binding in enumerate(bindings) if binding.name == name)


def _interfaces(plan: Plan) -> tuple[tuple[Tape, ...], list[int]]:
    """Return the tapes without their ops, each once, and for each tape of the plan the number of its interface."""
    found: dict[Tape, int] = {}
    numbers = [found.setdefault(interface(tape), len(found)) for tape in plan.tapes]
    return tuple(found), numbers


def interface(tape: Tape) -> Tape:
    """Return what a stage takes and leaves, without how: bindings on storages of their own."""
    storages: list[Storage] = []

    def bound(binding: Binding, comes_in: bool) -> Binding:
        if not isinstance(binding.value, View):
            return binding
        kind = tape.storages[binding.value.storage].kind if comes_in else "scratch"
        size = max(math.prod(binding.value.sizes) * ITEM_BYTES[binding.value.dtype], binding.value.span()[1])
        storages.append(Storage(kind, binding.name if comes_in else "", size))
        return replace(binding, value=replace(binding.value, storage=len(storages) - 1))

    inputs, state_in = (tuple(bound(row, True) for row in rows) for rows in (tape.inputs, tape.state_in))
    outputs, state_out = (tuple(bound(row, False) for row in rows) for rows in (tape.outputs, tape.state_out))
    return Tape(tape.stage, tuple(storages), inputs, state_in, (), outputs, state_out, tape.draws)
