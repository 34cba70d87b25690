"""From a Plan to a plan file: equal plans give equal bytes, and a path holds the old file or the whole new one."""

import os
from collections.abc import Sequence

from cadence_runtime.format.blobs import Compress, encode_blobs, store
from cadence_runtime.format.file import HEADER_BYTES, RAW, TABLE_BYTES, Extent, aligned, header
from cadence_runtime.format.graphs import encode_graphs
from cadence_runtime.format.manifest import encode_manifest
from cadence_runtime.format.plan import Plan, minor_of
from cadence_runtime.format.references import blob_digests
from cadence_runtime.format.replace import replace_file
from cadence_runtime.format.tables import encode_nodes, encode_transitions
from cadence_runtime.format.tapes import encode_tapes
from cadence_runtime.format.validate import validate


def encode_plan(plan: Plan, *, compress: Compress | None = None) -> bytes:
    """Return the bytes of a plan. `compress` makes one zstd frame that says its content's size; None stores all raw.

    Raises PlanError as the reader would for a plan that is not valid.
    """
    return b"".join(_pieces(plan, compress))


def write_plan(path: str | os.PathLike[str], plan: Plan, *, compress: Compress | None = None) -> int:
    """Write a plan to a path in one step and return its size in bytes.

    Raises PlanError for a plan that is not valid, UsageError CAD9202, CAD9204 or CAD9205 for a path that cannot be
    written; then nothing was.
    """
    return replace_file(path, _pieces(plan, compress))


def _pieces(plan: Plan, compress: Compress | None) -> Sequence[bytes]:
    digests = blob_digests(plan)
    validate(plan, digests)
    table, blobs = encode_blobs(plan.blobs, digests, compress)
    # The manifest and the blob table stay readable without a decoder.
    stored = [
        store(encode_manifest(plan), None),
        store(encode_nodes(plan), compress),
        store(encode_transitions(plan), compress),
        store(encode_tapes(plan.tapes), compress),
        store(encode_graphs(plan.cuda), compress),
        store(table, None),
    ]
    return assemble(stored, blobs, minor_of(plan))


def assemble(stored: Sequence[tuple[bytes, Extent]], blobs: Sequence[bytes], minor: int = 0) -> Sequence[bytes]:
    """Return a file in pieces: header, table, all sections but the last as they are stored, the pieces of `blobs`."""
    pieces, extents, offset = [], [], HEADER_BYTES + TABLE_BYTES
    for data, extent in stored:
        pieces += [bytes(aligned(offset) - offset), data]
        extents.append(extent.at(aligned(offset)))
        offset = extents[-1].upper
    size = sum(map(len, blobs))
    pieces += [bytes(aligned(offset) - offset), *blobs]
    extents.append(Extent(aligned(offset), size, size, RAW, bytes(32)))
    return [header(extents, minor), *pieces]
