"""The container: a header, a table of sections, and the sections.

    0000  89 43 44 43 0d 0a 1a 0a  01 00 00 00 07 00 00 00   magic, major, minor, number of sections
    0010  size of the file         zeros                     u64 and u64
    0020  sha256 of the 32 bytes above and the table
    0040  table, 80 bytes a section: name[16], extent[64]
          sections in the order of the table, each on 64 bytes, zeros between them

The magic does not survive a copy in text mode: line ends, a stripped high bit or a cut at Ctrl-Z change it. Every byte
of a file is covered by a digest or known to be zero.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence

from cadence_runtime.errors import PlanError
from cadence_runtime.format.source import Source
from cadence_runtime.frozen import frozen

MAGIC = b"\x89CDC\r\n\x1a\n"
MAJOR, MINOR = 1, 2
"""The newest version that is read. A file states the oldest one that can read it."""
ALIGNMENT = 64
SECTIONS = ("manifest", "nodes", "transitions", "tapes", "graphs", "blob-table", "blobs")
"""Every section of this version, in the order of the file; each is there, if only with zero bytes."""

RAW, ZSTD = 0, 1
CODECS = {RAW: "raw", ZSTD: "zstd"}

_HEADER = struct.Struct("<8sHHIQQ")
_NAME = struct.Struct("<16s")
_EXTENT = struct.Struct("<QQQII32s")
HEADER_BYTES = _HEADER.size + 32
ENTRY_BYTES = _NAME.size + _EXTENT.size
TABLE_BYTES = ENTRY_BYTES * len(SECTIONS)


@frozen
class Extent:
    """Bytes of the file: `size_bytes` of them stand at `offset`, come to `raw_bytes` once decoded, and have `sha256`
    as they stand."""

    offset: int
    size_bytes: int
    raw_bytes: int
    codec: int
    sha256: bytes

    @property
    def upper(self) -> int:
        """The first byte behind it."""
        return self.offset + self.size_bytes

    def at(self, offset: int) -> "Extent":
        """Return the same bytes at another offset."""
        return Extent(offset, self.size_bytes, self.raw_bytes, self.codec, self.sha256)


def aligned(offset: int) -> int:
    """Return the first aligned offset that is not lower."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def pack_extent(extent: Extent) -> bytes:
    """Return the 64 bytes of an extent."""
    return _EXTENT.pack(extent.offset, extent.size_bytes, extent.raw_bytes, extent.codec, 0, extent.sha256)


def unpack_extent(data: bytes, at: str) -> Extent:
    """Read the 64 bytes of an extent. Raises PlanError CAD5009 for a codec that is not known."""
    offset, size, raw, codec, reserved, sha256 = _EXTENT.unpack(data)
    if codec not in CODECS or reserved or (codec == RAW and raw != size):
        raise PlanError(
            "CAD5009",
            "an extent of the plan makes no sense",
            expected="codec 0 (raw, both sizes equal) or 1 (zstd), then zero",
            got=f"codec {codec}, {size} bytes for {raw}, then {reserved}",
            at=at,
        )
    return Extent(offset, size, raw, codec, sha256)


def header(extents: Sequence[Extent], minor: int = 0) -> bytes:
    """Return header and section table for the sections of a file of a minor version, in order."""
    head = _HEADER.pack(MAGIC, MAJOR, minor, len(SECTIONS), extents[-1].upper, 0)
    rows = zip(SECTIONS, extents, strict=True)
    table = b"".join(_NAME.pack(name.encode()) + pack_extent(extent) for name, extent in rows)
    return head + hashlib.sha256(head + table).digest() + table


def read_table(source: Source, *, whole: bool = True) -> dict[str, Extent]:
    """Return the extents of the sections by name; those of a file that is not `whole` may reach behind its end.

    Raises PlanError CAD5001 to CAD5009: magic, then version, size, digest, and the table itself.
    """
    head = source.read(0, min(HEADER_BYTES, source.size_bytes))
    _check_magic(head)
    if len(head) < HEADER_BYTES:
        raise _cut_short(f"at least {HEADER_BYTES} bytes", source.size_bytes)
    _, major, minor, count, size, reserved = _HEADER.unpack(head[: _HEADER.size])
    _check_version(major, minor)
    if source.size_bytes < (size if whole else HEADER_BYTES + TABLE_BYTES):
        raise _cut_short(f"{size} bytes", source.size_bytes)
    if source.size_bytes > size:
        raise PlanError(
            "CAD5004", "the plan goes on behind its end", expected=f"{size} bytes", got=f"{source.size_bytes} bytes"
        )
    if count != len(SECTIONS) or reserved or size < HEADER_BYTES + TABLE_BYTES:
        got = f"{count} sections, {size} bytes, then {reserved}"
        raise PlanError(
            "CAD5006", "the header of the plan makes no sense", expected=f"{len(SECTIONS)} sections, then zero", got=got
        )
    table = source.read(HEADER_BYTES, TABLE_BYTES)
    check_digest("the header and the section table", head[: _HEADER.size] + table, head[_HEADER.size :])
    return dict(zip(SECTIONS, _extents(table, size), strict=True))


def read_version(source: Source) -> tuple[int, int]:
    """Return the version of a file whose table was read."""
    _, major, minor, *_ = _HEADER.unpack(source.read(0, _HEADER.size))
    return int(major), int(minor)


def check_minor(version: tuple[int, int], needed: int) -> None:
    """Raise PlanError CAD5005 unless a file states the oldest minor version that can read it."""
    if version[1] != needed:
        raise PlanError(
            "CAD5005",
            "the plan states another version than it is of",
            expected=f"format {version[0]}.{needed}, the oldest that can read it",
            got=f"format {version[0]}.{version[1]}",
            hint="compile the plan again",
        )


def _check_magic(head: bytes) -> None:
    if head.startswith(MAGIC):
        return
    if len(head) < len(MAGIC) and MAGIC.startswith(head):
        raise _cut_short(f"at least {HEADER_BYTES} bytes", len(head))
    if head[1:4] == MAGIC[1:4] or head.startswith(b"\xc2\x89CDC") or head.startswith(b"\xef\xbf\xbdCDC"):
        raise PlanError(
            "CAD5002",
            "the plan was copied as text, which changed its bytes",
            expected=MAGIC.hex(" "),
            got=head[:8].hex(" "),
            hint="copy it in binary mode",
        )
    raise PlanError("CAD5001", "not a plan", expected=MAGIC.hex(" "), got=head[:8].hex(" "), at="byte 0")


def _check_version(major: int, minor: int) -> None:
    if major == MAJOR and minor <= MINOR:
        return
    newer = (major, minor) > (MAJOR, MINOR)
    raise PlanError(
        "CAD5005",
        f"the plan is of {'a newer' if newer else 'an older'} format",
        expected=f"format {MAJOR}.{MINOR}",
        got=f"format {major}.{minor}",
        hint="update cadence-runtime" if newer else "compile the plan again",
    )


def _cut_short(expected: str, size: int) -> PlanError:
    return PlanError("CAD5003", "the plan is cut short", expected=expected, got=f"{size} bytes", hint="copy it again")


def check_digest(what: str, data: bytes, sha256: bytes) -> None:
    """Raise PlanError CAD5007 unless the bytes have the digest."""
    got = hashlib.sha256(data).digest()
    if got != sha256:
        raise PlanError(
            "CAD5007",
            f"the digest of {what} does not match: the plan was altered or damaged",
            expected=f"sha256 {sha256.hex()[:16]}...",
            got=f"sha256 {got.hex()[:16]}...",
        )


def _extents(table: bytes, size: int) -> Iterable[Extent]:
    offset = HEADER_BYTES + TABLE_BYTES
    for index, name in enumerate(SECTIONS):
        entry = table[index * ENTRY_BYTES : (index + 1) * ENTRY_BYTES]
        at = f"section table, entry {index}"
        stored = entry[: _NAME.size]
        if stored != _NAME.pack(name.encode()):
            got = stored.rstrip(b"\0").decode("ascii", "replace")
            what = "the sections of the plan are not those of its format"
            raise PlanError("CAD5008", what, expected=f"section `{name}`", got=f"{got!r}", at=at)
        extent = unpack_extent(entry[_NAME.size :], at)
        check_follows(extent, aligned(offset), size, at)
        offset = extent.upper
        yield extent
    if offset != size:
        got = f"{size - offset} bytes behind section `{SECTIONS[-1]}`"
        raise PlanError("CAD5008", "a section of the plan is not where it belongs", expected="the end", got=got)


def check_follows(extent: Extent, offset: int, size: int, at: str) -> None:
    """Raise PlanError CAD5008 unless an extent starts right at `offset` and ends within `size`."""
    if extent.offset != offset or extent.upper > size:
        raise PlanError(
            "CAD5008",
            "a section of the plan is not where it belongs",
            expected=f"bytes from {offset} to at most {size}",
            got=f"bytes from {extent.offset} to {extent.upper}",
            at=at,
        )


def check_padding(source: Source, lower: int, upper: int) -> None:
    """Raise PlanError CAD5010 unless all bytes of the range, less than an alignment long, are zero."""
    if any(source.read(lower, upper - lower)):
        raise PlanError(
            "CAD5010",
            "the bytes between two parts of the plan are not zero",
            expected="zeros",
            got="other bytes",
            at=f"bytes {lower} to {upper}",
        )
