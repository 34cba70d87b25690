"""From a Plan to a plan file: equal plans give equal bytes, and a path holds the old file or the whole new one."""

from collections.abc import Mapping, Sequence

from cadence_runtime.format.blobs import Compress, encode_blobs, read_blob_table, store
from cadence_runtime.format.file import HEADER_BYTES, RAW, TABLE_BYTES, Extent, aligned, header
from cadence_runtime.format.graphs import decode_graphs, encode_graphs
from cadence_runtime.format.manifest import Manifest, decode_manifest, encode_manifest, require_manifest_size
from cadence_runtime.format.plan import Plan, minor_of
from cadence_runtime.format.references import blob_digests
from cadence_runtime.format.replace import Path, replace_files
from cadence_runtime.format.tables import decode_nodes, decode_transitions, encode_nodes, encode_transitions
from cadence_runtime.format.tapes import decode_tapes, encode_tapes
from cadence_runtime.format.validate import validate


def encode_plan(plan: Plan, *, compress: Compress | None = None) -> bytes:
    """Return the bytes of a plan. `compress` makes one zstd frame that says its content's size; None stores all raw.

    Raises PlanError as the reader would for a plan that is not valid.
    """
    return b"".join(_pieces(plan, compress))


def write_plan(
    path: Path,
    plan: Plan,
    *,
    compress: Compress | None = None,
    before: Sequence[tuple[Path, bytes]] = (),
) -> int:
    """Write a plan to a path in one step and return its size in bytes. `before` are files that it needs, each a path
    and its bytes: they stand before the plan does.

    Raises PlanError for a plan that is not valid, UsageError CAD9202 or CAD9204 to CAD9206 for a path that cannot be
    written; then nothing was.
    """
    files = [(needed, [data]) for needed, data in before]
    return replace_files([*files, (path, _pieces(plan, compress))])[-1]


def _pieces(plan: Plan, compress: Compress | None) -> Sequence[bytes]:
    encoded = encode_manifest(plan)
    require_manifest_size(len(encoded))
    manifest = decode_manifest(encoded)  # a program that is too long is not worth another look
    digests = blob_digests(plan)
    validate(plan, digests)
    table, blobs = encode_blobs(plan.blobs, digests, compress)
    parts = {
        "manifest": encoded,
        "nodes": encode_nodes(plan),
        "transitions": encode_transitions(plan),
        "tapes": encode_tapes(plan.tapes),
        "graphs": encode_graphs(plan.cuda),
        "blob-table": table,
    }
    _require_readable(manifest, parts, sum(map(len, blobs)))
    # The manifest and the blob table stay readable without a decoder.
    plain = ("manifest", "blob-table")
    stored = [store(data, None if name in plain else compress) for name, data in parts.items()]
    return assemble(stored, blobs, minor_of(plan))


def _require_readable(manifest: Manifest, parts: Mapping[str, bytes], blob_bytes: int) -> None:
    """Raise what a reader would say of these sections, which it holds to limits of their own: how long a list or a
    string may be, how deep a tuple."""
    nodes = decode_nodes(parts["nodes"], manifest)
    decode_transitions(parts["transitions"], manifest, len(nodes))
    decode_tapes(parts["tapes"])
    blobs, _ = read_blob_table(parts["blob-table"], Extent(0, blob_bytes, blob_bytes, RAW, bytes(32)))
    decode_graphs(parts["graphs"], len(blobs))


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
