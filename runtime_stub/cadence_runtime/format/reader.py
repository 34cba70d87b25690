"""From a plan file to a Plan: container, digests, manifest, tables, tapes, then every rule of `validate.py`.

Whatever the bytes are, `read_plan` returns a valid Plan or raises a CadenceError, in memory and time that the length of
the file bounds.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from cadence_runtime.errors import CadenceError, PlanError
from cadence_runtime.format.blobs import Blobs, Decompress, UnreadBlob, begin_blobs, fetch
from cadence_runtime.format.file import (
    HEADER_BYTES,
    TABLE_BYTES,
    Extent,
    check_minor,
    check_padding,
    read_table,
    read_version,
)
from cadence_runtime.format.graphs import decode_graphs
from cadence_runtime.format.manifest import decode_manifest, require_manifest_size
from cadence_runtime.format.plan import Plan, minor_of
from cadence_runtime.format.source import MemorySource, Source, naming, opened
from cadence_runtime.format.tables import decode_nodes, decode_transitions
from cadence_runtime.format.tapes import decode_tapes
from cadence_runtime.format.validate import validate
from cadence_runtime.frozen import frozen
from cadence_runtime.threads import Begun

Begin = Callable[[str], None]
"""Is told the target of a plan as soon as its manifest is read, which the rest of the file may still contradict."""


@frozen
class PlanFile:
    """A plan and how it stands in its file: the extents of the sections by name, in order. `sha256` is that of the
    bytes which the plan was read from, where it was asked for."""

    plan: Plan
    size_bytes: int
    extents: tuple[tuple[str, Extent], ...]
    sha256: str | None = None


def read_plan(source: str | os.PathLike[str] | bytes, *, decompress: Decompress | None) -> Plan:
    """Read and validate a plan from a path or from bytes.

    `decompress(data, size)` decodes one zstd frame to exactly `size` bytes or raises. Raises UsageError CAD92xx for a
    path that is no readable file, PlanError CAD5xxx for everything else; several independent faults come as one
    ErrorList.
    """
    return read_plan_file(source, decompress=decompress).plan


def read_plan_file(
    source: str | os.PathLike[str] | bytes, *, decompress: Decompress | None, hashed: bool = False
) -> PlanFile:
    """Read and validate a plan, and say how it stands in its file.

    With `hashed`, the whole file is first read into memory, so that its digest is that of the very bytes behind the
    plan, whatever happens to the file meanwhile.
    """
    with reading_plan(source, decompress=decompress, hashed=hashed) as (file, blobs):
        return PlanFile(_with_blobs(file.plan, blobs.settle()), file.size_bytes, file.extents, file.sha256)


@contextmanager
def reading_plan(
    source: str | os.PathLike[str] | bytes,
    *,
    decompress: Decompress | None,
    hashed: bool = False,
    begin: Begin | None = None,
) -> Iterator[tuple[PlanFile, Blobs]]:
    """Read a plan as `read_plan_file` does, and hand it out with its blobs as soon as it is known to keep every rule.
    Until the block is left, the blobs are read and hashed by other threads: whoever is content with the plan settles
    them, since the file may yet turn out to be damaged.

    Raises as `read_plan` does, also where the block ends by an error of its own: damage is told before everything else.
    """
    with opened(source) as file:
        telling = partial(_telling, source, file.size_bytes)
        with telling():
            data, sha256 = _hashed(file) if hashed else (file, None)
            extents = read_table(data)
            _check_gaps(data, extents)
            require_manifest_size(extents["manifest"].raw_bytes)
            section = partial(_section, data, extents, decompress)
            reading, unread = begin_blobs(section("blob-table"), extents["blobs"], data, decompress)
        with reading:
            blobs = Blobs(reading, telling)
            try:
                with telling():
                    plan = _plan(data, section, reading, unread, begin)
                yield PlanFile(_with_blobs(plan, blobs), file.size_bytes, tuple(extents.items()), sha256), blobs
            except CadenceError:
                blobs.settle()  # damage is told before what was made wrong
                raise


@contextmanager
def _telling(source: str | os.PathLike[str] | bytes, size_bytes: int) -> Iterator[None]:
    """Let errors name the file, and say of one that takes all memory that it does."""
    with naming(source):
        try:
            yield
        except (MemoryError, RecursionError) as error:
            raise PlanError(
                "CAD5017",
                "the plan is too large for this process",
                expected=f"memory for a plan of {size_bytes} bytes",
                got=type(error).__name__,
            ) from None


def _hashed(source: Source) -> tuple[Source, str]:
    content = source.read(0, source.size_bytes)
    return MemorySource(content), hashlib.sha256(content).hexdigest()


def _section(source: Source, extents: Mapping[str, Extent], decompress: Decompress | None, name: str) -> bytes:
    return fetch(source, extents[name], f"section `{name}`", decompress)


def _plan(
    source: Source,
    section: Callable[[str], bytes],
    reading: Begun[Any, bytes],
    unread: Sequence[UnreadBlob],
    begin: Begin | None,
) -> Plan:
    """Return the plan, held to every rule. Of its blobs, the rules ask for lengths and digests, which the table has;
    only those of images are waited for."""
    manifest = decode_manifest(section("manifest"))
    if begin is not None:
        begin(manifest.target)
    nodes = decode_nodes(section("nodes"), manifest)
    transitions = decode_transitions(section("transitions"), manifest, len(nodes))
    tapes = decode_tapes(section("tapes"))
    graphs = decode_graphs(section("graphs"), len(unread))
    images = {image.blob for image in graphs.images} if graphs else set()
    known = [reading.result(number) if number in images else blob for number, blob in enumerate(unread)]
    plan = manifest.plan(tapes, nodes, transitions, cast(Any, tuple(known)), graphs)
    check_minor(read_version(source), minor_of(plan))
    validate(plan, [blob.sha256 for blob in unread])
    return plan


def _with_blobs(plan: Plan, blobs: Sequence[bytes]) -> Plan:
    own = {name: getattr(plan, name) for name in Plan.__match_args__}
    return Plan(**own | {"blobs": blobs})


def _check_gaps(source: Source, extents: dict[str, Extent]) -> None:
    upper = HEADER_BYTES + TABLE_BYTES
    for extent in extents.values():
        check_padding(source, upper, extent.offset)
        upper = extent.upper
    blobs = extents["blobs"]
    if blobs.size_bytes != blobs.raw_bytes or any(blobs.sha256):
        raise PlanError(
            "CAD5009",
            "an extent of the plan makes no sense",
            expected="section `blobs` raw, without a digest, since each blob has its own",
            got="another",
            at="section table",
        )
