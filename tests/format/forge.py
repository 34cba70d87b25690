"""Plan files with something wrong in them and every digest right: what an attacker makes, not an accident."""

from collections.abc import Callable
from dataclasses import replace

from cadence_runtime.format.blobs import encode_blobs, store
from cadence_runtime.format.file import HEADER_BYTES, SECTIONS, TABLE_BYTES, Extent, header, read_table
from cadence_runtime.format.graphs import encode_graphs
from cadence_runtime.format.manifest import encode_manifest
from cadence_runtime.format.plan import Plan, minor_of
from cadence_runtime.format.references import blob_digests
from cadence_runtime.format.source import MemorySource
from cadence_runtime.format.tables import encode_nodes, encode_transitions
from cadence_runtime.format.tapes import encode_tapes
from cadence_runtime.format.writer import assemble

Change = Callable[[bytes], bytes]


def sections(plan: Plan) -> dict[str, bytes]:
    """The sections of a plan that nobody validated, all raw."""
    table, pieces = encode_blobs(plan.blobs, blob_digests(plan), None)
    return {
        "manifest": encode_manifest(plan),
        "nodes": encode_nodes(plan),
        "transitions": encode_transitions(plan),
        "tapes": encode_tapes(plan.tapes),
        "graphs": encode_graphs(plan.cuda),
        "blob-table": table,
        "blobs": b"".join(pieces),
    }


def join(parts: dict[str, bytes], minor: int = 0) -> bytes:
    """A file of these sections, its digests made anew."""
    *stored, blobs = parts.values()
    return b"".join(assemble([store(data, None) for data in stored], [blobs], minor))


def forged(plan: Plan, **changes: bytes | Change) -> bytes:
    """The file of a plan, some of its sections changed (`blob_table` stands for `blob-table`)."""
    parts = sections(plan)
    for name, change in changes.items():
        key = name.replace("_", "-")
        parts[key] = change if isinstance(change, bytes) else change(parts[key])
    return join(parts, minor_of(plan))


def with_extents(data: bytes, **changes: Callable[[Extent], Extent]) -> bytes:
    """A file whose section table says something else; its digest is made anew."""
    extents = dict(read_table(MemorySource(data)))
    for name, change in changes.items():
        key = name.replace("_", "-")
        extents[key] = change(extents[key])
    return header([extents[name] for name in SECTIONS]) + data[HEADER_BYTES + TABLE_BYTES :]


def moved(extent: Extent, offset_bytes: int) -> Extent:
    return replace(extent, offset=extent.offset + offset_bytes)


def redo_header(data: bytes, change: Callable[[bytearray], None]) -> bytes:
    """A file with other bytes in its header or table; the digest over both is made anew."""
    import hashlib

    head = bytearray(data)
    change(head)
    table = head[HEADER_BYTES : HEADER_BYTES + TABLE_BYTES]
    head[HEADER_BYTES - 32 : HEADER_BYTES] = hashlib.sha256(head[: HEADER_BYTES - 32] + table).digest()
    return bytes(head)


def swapped(old: bytes, new: bytes) -> Change:
    """A change of the one place where `old` stands."""

    def change(data: bytes) -> bytes:
        assert data.count(old) >= 1, old
        return data.replace(old, new, 1)

    return change


def word(index: int, value: int) -> Change:
    """A change of one 64-bit word."""
    return lambda data: data[: 8 * index] + value.to_bytes(8, "little", signed=True) + data[8 * index + 8 :]
