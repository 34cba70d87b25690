"""Blobs: bytes by their content, one after the other, each under its own digest.

The table has one row a blob, 96 bytes: the sha256 of its content, then its extent within section `blobs`. A blob is
stored as it is, or as one zstd frame where that is shorter. Blobs are read, hashed and decoded side by side.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import overload

from cadence_runtime.errors import PlanError
from cadence_runtime.format.file import (
    RAW,
    ZSTD,
    Extent,
    aligned,
    check_digest,
    check_follows,
    check_padding,
    pack_extent,
    unpack_extent,
)
from cadence_runtime.format.source import Source
from cadence_runtime.frozen import frozen
from cadence_runtime.threads import Begun

Compress = Callable[[bytes], bytes]
Decompress = Callable[[bytes, int], bytes]
"""Returns the content of one zstd frame, which has exactly so many bytes; raises anything when it has not."""

MAX_RATIO = 256
"""What is stored never grows by more than this, so that a short file cannot ask for much memory."""
MIN_COMPRESSED_BYTES = 512
ROW_BYTES = 96


def store(data: bytes, compress: Compress | None, sha256: bytes | None = None) -> tuple[bytes, Extent]:
    """Return bytes as they will stand in the file, and their extent at offset 0; `sha256` is that of the bytes, where
    it is known."""
    stored, codec = data, RAW
    if compress is not None and len(data) >= MIN_COMPRESSED_BYTES:
        packed = compress(data)
        if len(packed) < len(data) - len(data) // 8 and len(data) <= MAX_RATIO * len(packed):
            stored, codec = packed, ZSTD
    if codec == ZSTD or sha256 is None:
        sha256 = hashlib.sha256(stored).digest()
    return stored, Extent(0, len(stored), len(data), codec, sha256)


def fetch(source: Source, extent: Extent, what: str, decompress: Decompress | None) -> bytes:
    """Read, check and decode an extent. Raises PlanError CAD5007, CAD5012 or CAD5013."""
    require_growth(extent, what)
    stored = source.read(extent.offset, extent.size_bytes)
    check_digest(what, stored, extent.sha256)
    return stored if extent.codec == RAW else _decoded(stored, extent, what, decompress)


def require_growth(extent: Extent, what: str) -> None:
    """Raise PlanError CAD5013 for an extent whose content is too long for what is stored."""
    if extent.raw_bytes > MAX_RATIO * extent.size_bytes:
        raise PlanError(
            "CAD5013",
            f"{what} would take too much memory",
            expected=f"at most {MAX_RATIO} times the {extent.size_bytes} bytes that are stored",
            got=f"{extent.raw_bytes} bytes",
        )


def _decoded(stored: bytes, extent: Extent, what: str, decompress: Decompress | None) -> bytes:
    reason = "no decoder"
    if decompress is not None:
        try:
            data = decompress(stored, extent.raw_bytes)
            if len(data) == extent.raw_bytes:
                return data
            reason = f"{len(data)} bytes"
        except Exception as error:  # a decoder that the caller chose may raise anything
            reason = f"{type(error).__name__}: {str(error)[:100]}"
    raise PlanError(
        "CAD5012", f"{what} cannot be decompressed", expected=f"a zstd frame of {extent.raw_bytes} bytes", got=reason
    )


def encode_blobs(
    blobs: Sequence[bytes], digests: Sequence[str], compress: Compress | None
) -> tuple[bytes, list[bytes]]:
    """Return the table, and the pieces of section `blobs` with the padding between them."""
    rows, pieces, offset = [], [], 0
    for blob, digest in zip(blobs, digests, strict=True):
        content = bytes.fromhex(digest)
        stored, extent = store(blob, compress, content)
        pieces.append(bytes(aligned(offset) - offset))
        rows.append(content + pack_extent(extent.at(aligned(offset))))
        pieces.append(stored)
        offset = aligned(offset) + len(stored)
    return b"".join(rows), pieces


@frozen
class _Row:
    """A row of the table: the digest of the content, where it stands in the file, and where the padding before it
    begins."""

    index: int
    sha256: bytes
    extent: Extent
    padding: int


def begin_blobs(
    table: bytes, section: Extent, source: Source, decompress: Decompress | None
) -> "tuple[Begun[_Row, bytes], tuple[UnreadBlob, ...]]":
    """Begin to read, hash and decode every blob, in the order of the table; return what gives their content, and what
    the table says of them. Raises PlanError CAD5008 to CAD5015, and asking for content CAD5007 to CAD5016."""
    rows = _rows(table, section)
    others = min(8, os.cpu_count() or 1, len(rows))
    return Begun(lambda row: _content(row, source, decompress), rows, others), _unread(rows)


@frozen
class UnreadBlob:
    """A blob of which only the table was read: it has a length and the digest that the table claims, no content."""

    size_bytes: int
    sha256: str

    def __len__(self) -> int:
        return self.size_bytes


class Blobs(Sequence[bytes]):
    """The contents of blobs that may still be read: whoever asks for one waits until its bytes are there and their
    digest is right. Equal to any sequence of equal contents.

    Raises PlanError CAD5007 to CAD5016 where a blob is damaged: of several, the first in the order of the table,
    whichever was asked for. `telling` is what each such error goes through.
    """

    def __init__(self, reading: "Begun[_Row, bytes]", telling: Callable[[], AbstractContextManager[None]]) -> None:
        self._reading: Begun[_Row, bytes] | tuple[bytes, ...] = reading
        self._telling = telling

    def settle(self) -> tuple[bytes, ...]:
        """Wait for all of them, and return their contents. Nothing of the file is held any longer."""
        if isinstance(self._reading, Begun):
            with self._telling():
                self._reading = tuple(self._reading.results())
        return self._reading

    def __len__(self) -> int:
        return len(self._reading)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[bytes, ...]: ...
    def __getitem__(self, index: int | slice) -> bytes | tuple[bytes, ...]:
        reading = self._reading
        if isinstance(index, slice) or not isinstance(reading, Begun):
            return self.settle()[index]
        with self._telling():
            return reading.result(range(len(reading))[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.settle() == tuple(other)

    def __hash__(self) -> int:
        return hash(self.settle())

    def __repr__(self) -> str:
        return repr(self.settle())


def read_blob_table(table: bytes, section: Extent) -> tuple[tuple[UnreadBlob, ...], tuple[str, ...]]:
    """Return the length of every blob, and the digest that it claims. Raises PlanError CAD5008 to CAD5015."""
    blobs = _unread(_rows(table, section))
    return blobs, tuple(blob.sha256 for blob in blobs)


def _unread(rows: Sequence[_Row]) -> tuple[UnreadBlob, ...]:
    return tuple(UnreadBlob(row.extent.raw_bytes, row.sha256.hex()) for row in rows)


def _rows(table: bytes, section: Extent) -> list[_Row]:
    if len(table) % ROW_BYTES:
        got = f"{len(table)} bytes"
        raise PlanError("CAD5014", "the blob table has the wrong length", expected=f"{ROW_BYTES} bytes a row", got=got)
    rows: list[_Row] = []
    offset, seen = 0, set()
    for index in range(len(table) // ROW_BYTES):
        row, at = table[index * ROW_BYTES : (index + 1) * ROW_BYTES], f"blob {index}"
        digest, extent = row[:32], unpack_extent(row[32:], at)
        check_follows(extent, aligned(offset), section.size_bytes, at)
        require_growth(extent, at)
        if digest in seen:
            raise PlanError("CAD5015", "a blob stands twice in the plan", expected="each once", got=digest.hex(), at=at)
        seen.add(digest)
        placed = extent.at(section.offset + extent.offset)
        rows.append(_Row(index, digest, placed, section.offset + offset))
        offset = extent.upper
    if offset != section.size_bytes:
        expected, got = f"{offset} bytes of blobs", f"{section.size_bytes} bytes"
        raise PlanError("CAD5008", "a section of the plan is not where it belongs", expected=expected, got=got)
    return rows


def _content(row: _Row, source: Source, decompress: Decompress | None) -> bytes:
    check_padding(source, row.padding, row.extent.offset)
    content = fetch(source, row.extent, f"blob {row.index}", decompress)
    # The stored bytes of a raw blob are its content, and their digest was just compared.
    got = row.extent.sha256 if row.extent.codec == RAW else hashlib.sha256(content).digest()
    if got != row.sha256:
        raise PlanError(
            "CAD5016",
            f"blob {row.index} is not what its name says",
            expected=f"sha256 {row.sha256.hex()[:16]}...",
            got=f"sha256 {got.hex()[:16]}...",
        )
    return content
