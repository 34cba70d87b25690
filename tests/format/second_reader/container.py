"""The file, its sections and its blobs, by the page's "Container" and "Blobs"."""

import hashlib
import struct
from dataclasses import dataclass

import zstandard

from .refused import need, refuse

NAMES = ("manifest", "nodes", "transitions", "tapes", "graphs", "blob-table", "blobs")
MAGIC = bytes.fromhex("89 43 44 43 0d 0a 1a 0a")
FIRST = 640


@dataclass(frozen=True, slots=True)
class Extent:
    offset: int
    stored: int
    content: int
    codec: int
    sha256: bytes


def align(n: int) -> int:
    return (n + 63) // 64 * 64


def extent(data: bytes) -> Extent:
    offset, stored, content, codec, zero, sha256 = struct.unpack("<QQQII32s", data)
    need(zero == 0, "an extent has four zero bytes")
    need(codec == 1 or (codec == 0 and stored == content), "codec 0 or 1, and raw sizes are equal")
    need(content <= 256 * stored, "content is at most 256 times as long")
    return Extent(offset, stored, content, codec, sha256)


def sections(data: bytes) -> dict[str, bytes]:
    """Return the content of each section."""
    extents = header(data)
    found = {}
    for name, each in extents.items():
        stored = data[each.offset : each.offset + each.stored]
        if name == "blobs":
            need(each.codec == 0 and each.sha256 == bytes(32), "blobs are raw, without a digest")
            found[name] = stored
        else:
            found[name] = content(stored, each)
    return found


def minor(data: bytes) -> int:
    return int.from_bytes(data[10:12], "little")


def header(data: bytes) -> dict[str, Extent]:
    need(len(data) >= FIRST, "shorter than its header")
    magic, major, minor, count, size, zero, digest = struct.unpack_from("<8sHHIQQ32s", data)
    need(magic == MAGIC, "another magic")
    need(major == 1 and minor in (0, 1, 2), "another version")
    need((count, size, zero) == (7, len(data), 0), "sections, size or zeros")
    need(digest == hashlib.sha256(data[:32] + data[64:624]).digest(), "digest of the header")
    need(not any(data[624:FIRST]), "zeros behind the table")
    extents, at = {}, FIRST
    for number, name in enumerate(NAMES):
        row = data[64 + 80 * number : 144 + 80 * number]
        need(row[:16] == name.encode().ljust(16, b"\0"), "names of sections")
        extents[name] = extent(row[16:])
        at = follows(data, at, extents[name])
    need(at == len(data), "the file ends with the last section")
    need(extents["manifest"].content <= 1 << 28, "a manifest has at most 2^28 bytes")
    return extents


def follows(data: bytes, end: int, each: Extent) -> int:
    """Check that something stands right behind what ended at `end`, zeros between; return its own end."""
    need(each.offset == align(end), "things follow one another")
    need(each.offset + each.stored <= len(data), "things lie inside")
    need(not any(data[end : each.offset]), "zeros between things")
    return each.offset + each.stored


def content(stored: bytes, each: Extent) -> bytes:
    need(hashlib.sha256(stored).digest() == each.sha256, "digest of stored bytes")
    return stored if each.codec == 0 else unpacked(stored, each.content)


def unpacked(stored: bytes, size: int) -> bytes:
    try:
        need(zstandard.frame_content_size(stored) == size, "a frame states the size of its content")
        result = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError as error:
        refuse(f"a zstd frame: {error}")
    need(len(result) == size, "as much content as stated")
    return result


def blobs(table: bytes, data: bytes) -> list[bytes]:
    """Return the blobs in order."""
    need(len(table) % 96 == 0, "96 bytes a row")
    found: dict[bytes, bytes] = {}
    at = 0
    for start in range(0, len(table), 96):
        name, each = table[start : start + 32], extent(table[start + 32 : start + 96])
        at = follows(data, at, each)
        need(name not in found, "no content twice")
        found[name] = content(data[each.offset : at], each)
        need(hashlib.sha256(found[name]).digest() == name, "digest of content")
    need(at == len(data), "blobs end with the last")
    return list(found.values())
