"""A recording as JSON and back, in two parts: what the compiler needs to know of it before the end, which is short, and
the rest. Bytes are hexadecimal, or the digests of objects where they may be long."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from cadence_runtime.format.cuda import Edge, MemcpyNode, MemsetNode
from cadencec.targets.cuda.globals import LiveGlobal
from cadencec.targets.cuda.nodes import RawKernel
from cadencec.targets.cuda.recording import CudaRecording, IdleBuffer, OutsideBuffer, Philox, ScratchBuffer
from cadencec.targets.cuda.relocate import FreeGraph, FreeKernel, FreeNode, Pointer

Json = Any


@dataclass(frozen=True, slots=True)
class Summary:
    """Of a recording, what its scratch takes and what it points into without using it."""

    scratch: tuple[ScratchBuffer, ...]
    idle: tuple[IdleBuffer, ...]


def summary_of(recording: CudaRecording) -> Summary:
    """Return the summary of a recording."""
    return Summary(recording.scratch, recording.idle)


def summary_from_json(entry: Mapping[str, Json]) -> Summary:
    """Return the summary that the first part holds."""
    scratch = tuple(ScratchBuffer(*row) for row in entry["scratch"])
    return Summary(scratch, tuple(IdleBuffer(*row) for row in entry["idle"]))


def to_json(recording: CudaRecording) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return both parts of a recording; handles of the driver, which mean nothing later, are left out."""
    graph, philox = recording.graph, recording.philox
    first = {
        "scratch": [[row.number, row.size_bytes, row.lower, row.upper] for row in recording.scratch],
        "idle": [[row.number, row.size_bytes] for row in recording.idle],
        "outside": [[row.number, hashlib.sha256(row.content).hexdigest()] for row in recording.outside],
        "images": dict(recording.images),
    }
    rest = {
        "nodes": [_node(node) for node in graph.nodes],
        "pointers": [[row.node, row.word, row.buffer, row.offset] for row in graph.pointers],
        "edges": [list(row) for row in graph.edges],
        "ops": list(recording.ops),
        "globals": [[row.image, row.name, row.data.hex(), row.pointers] for row in recording.globals],
        "philox": None if philox is None else [philox.seed, philox.offset, philox.step],
    }
    return first, rest


def objects_of(entry: Mapping[str, Json]) -> Iterator[str]:
    """Yield the digests of the objects that the first part of an entry names."""
    yield from entry["images"].values()
    yield from (digest for _, digest in entry["outside"])


def from_json(first: Mapping[str, Json], rest: Mapping[str, Json], load: Callable[[str], bytes]) -> CudaRecording:
    """Return the recording that was made into JSON; `load` returns an object by its digest."""
    summary, entry = summary_from_json(first), {**first, **rest}
    return CudaRecording(
        graph=FreeGraph(
            nodes=tuple(_free_node(row) for row in entry["nodes"]),
            pointers=tuple(Pointer(*row) for row in entry["pointers"]),
            edges=tuple(starmap(Edge, entry["edges"])),
        ),
        ops=tuple(entry["ops"]),
        scratch=summary.scratch,
        outside=tuple(OutsideBuffer(number, load(digest)) for number, digest in entry["outside"]),
        images=dict(entry["images"]),
        globals=tuple(_live_global(*row) for row in entry["globals"]),
        philox=None if entry["philox"] is None else Philox(*entry["philox"]),
        idle=summary.idle,
    )


def _node(node: FreeNode) -> list[Json]:
    match node:
        case FreeKernel():
            raw = node.raw
            attributes = [[name, value.hex()] for name, value in raw.attributes]
            launch = [raw.name, raw.grid, raw.block, raw.shared_bytes, raw.param_offsets, raw.param_sizes]
            return ["launch", *launch, node.params.hex(), attributes, raw.function_attributes]
        case MemsetNode():
            return ["fill", node.pitch, node.value, node.element_bytes, node.width, node.height]
        case MemcpyNode():
            box = (node.width, node.height, node.depth)
            pitches = (node.destination_pitch, node.destination_height, node.source_pitch, node.source_height)
            return ["copy", *box, *pitches]


def _free_node(row: list[Json]) -> FreeNode:
    kind, *rest = row
    if kind == "fill":
        pitch, value, element_bytes, width, height = rest
        return MemsetNode(pitch, value, element_bytes, width, height)
    if kind == "copy":
        width, height, depth, to_pitch, to_height, from_pitch, from_height = rest
        return MemcpyNode(width, height, depth, to_pitch, to_height, from_pitch, from_height)
    name, grid, block, shared, offsets, sizes, params, attributes, function_attributes = rest
    raw = RawKernel(
        name,
        None,
        tuple(grid),
        tuple(block),
        shared,
        tuple(offsets),
        tuple(sizes),
        bytes.fromhex(params),
        tuple((attribute, bytes.fromhex(value)) for attribute, value in attributes),
        tuple((attribute, value) for attribute, value in function_attributes),
    )
    return FreeKernel(raw, raw.params)


def _live_global(image: str, name: str, data: str, pointers: list[Json]) -> LiveGlobal:
    return LiveGlobal(
        image, name, bytes.fromhex(data), tuple((at, (number, offset)) for at, (number, offset) in pointers)
    )
