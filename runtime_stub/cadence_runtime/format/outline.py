"""A plan file without the content of its blobs, and as much of a damaged one as can be read.

What is read is decoded and checked like a plan that is to be run, rule for rule; what is left out is only the bytes of
weights, constants and kernel images, which the table names by their digests. A diff needs no more.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

from cadence_runtime.errors import CadenceError, PlanError
from cadence_runtime.format.blobs import Decompress, UnreadBlob, fetch, read_blob_table
from cadence_runtime.format.file import MAJOR, Extent, check_minor, read_table, read_version
from cadence_runtime.format.graphs import decode_graphs
from cadence_runtime.format.manifest import Manifest, decode_manifest
from cadence_runtime.format.plan import Plan, minor_of
from cadence_runtime.format.reader import read_plan_file
from cadence_runtime.format.source import Source, located, naming, opened
from cadence_runtime.format.tables import decode_nodes, decode_transitions
from cadence_runtime.format.tapes import decode_tapes
from cadence_runtime.format.validate import validate
from cadence_runtime.frozen import frozen

Found = TypeVar("Found")
CUT_SHORT = "CAD5003"


@frozen
class Outline:
    """A plan whose blobs have lengths only.

    `version` is that of the file's format; `extents` are those of the sections by name, in order; `unread` are the
    sections that could not be read, and stand empty in `plan`; `faults` says why, or which rules the plan breaks.
    """

    plan: Plan
    version: str
    size_bytes: int
    extents: tuple[tuple[str, Extent], ...]
    unread: tuple[str, ...]
    faults: tuple[CadenceError, ...]


def read_outline(path: str | os.PathLike[str], *, decompress: Decompress | None) -> Outline:
    """Read what can be read of a plan file.

    Raises UsageError CAD92xx for a path that is no readable file, and PlanError CAD5xxx where neither the section
    table nor the manifest can be read: then nothing is known of the plan.
    """
    with opened(path) as source, naming(path):
        reader = _Reader(source, decompress)
        return reader.outline(os.fspath(path))


def read_whole(path: str | os.PathLike[str], *, decompress: Decompress | None) -> Outline:
    """Read a plan with all of its blobs, and say how it stands in its file; nothing is unread, and there are no faults.
    Raises as `read_plan` does."""
    file = read_plan_file(path, decompress=decompress)
    version = f"{MAJOR}.{minor_of(file.plan)}"
    return Outline(file.plan, version, file.size_bytes, file.extents, (), ())


class _Reader:
    def __init__(self, source: Source, decompress: Decompress | None) -> None:
        self.source, self.decompress = source, decompress
        self.unread: list[str] = []
        self.faults: list[CadenceError] = []
        try:
            self.extents: dict[str, Extent] = read_table(source)
        except PlanError as fault:
            if fault.code != CUT_SHORT:
                raise
            self.extents = read_table(source, whole=False)
            self.faults.append(fault)

    def outline(self, path: str) -> Outline:
        manifest: Manifest = decode_manifest(self._bytes("manifest"))
        nodes = self._part("nodes", lambda data: decode_nodes(data, manifest), ())
        transitions = self._part("transitions", lambda data: decode_transitions(data, manifest, len(nodes)), ())
        tapes = self._part("tapes", decode_tapes, ())
        blobs: tuple[tuple[UnreadBlob, ...], tuple[str, ...]] = self._part(
            "blob-table", lambda data: read_blob_table(data, self.extents["blobs"]), ((), ())
        )
        graphs = self._part("graphs", lambda data: decode_graphs(data, len(blobs[0])), None)
        # A plan takes bytes; of these only the lengths are ever asked for.
        plan = manifest.plan(tapes, nodes, transitions, cast(Any, blobs[0]), graphs)
        if not self.unread:
            self._validate(plan, blobs[1])
        faults = tuple(located(fault, path) for fault in self.faults)
        version = ".".join(map(str, read_version(self.source)))
        return Outline(plan, version, self.source.size_bytes, tuple(self.extents.items()), tuple(self.unread), faults)

    def _bytes(self, name: str) -> bytes:
        upper = self.extents[name].upper
        if upper > self.source.size_bytes:
            what, got = f"section `{name}` is cut off", f"{self.source.size_bytes} bytes"
            raise PlanError(CUT_SHORT, what, expected=f"{upper} bytes", got=got, hint="copy the plan again")
        return fetch(self.source, self.extents[name], f"section `{name}`", self.decompress)

    def _part(self, name: str, decode: Callable[[bytes], Found], instead: Any) -> Found:
        try:
            return decode(self._bytes(name))
        except PlanError as fault:
            self.unread.append(name)
            self.faults.append(fault)
            return cast(Found, instead)

    def _validate(self, plan: Plan, digests: tuple[str, ...]) -> None:
        try:
            check_minor(read_version(self.source), minor_of(plan))
            validate(plan, digests)
        except CadenceError as fault:
            self.faults.append(fault)
