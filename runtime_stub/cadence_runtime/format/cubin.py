"""What a kernel image says of itself: an ELF file for NVIDIA's machine, whose tables lie inside it.

The driver takes an image by its address alone, so one that is shorter than its own tables say would make it read on
behind the end. Here every table is held to the bytes that are there, and a kernel's parameters are read:

    .text.NAME       the code of kernel NAME
    .nv.info.NAME    records: format u8, attribute u8, size u16, content; attribute 0x17 is one parameter,
                     (index u32, ordinal u16, offset u16, flags u32), its size in the upper 14 bits of the flags
    .nv.info         records of the whole image; attribute 0x11 is the local memory of a thread in one function,
                     (symbol u32, bytes u32)
"""

import struct
from collections.abc import Iterator

from cadence_runtime.frozen import frozen

MAGIC = b"\x7fELF\x02\x01\x01"
"""64 bits, little-endian, version 1."""
MACHINE = 190
NO_BYTES = 8
"""The type of a section that takes no bytes of the file."""
INFO = ".nv.info"
SIZED, FRAME, PARAMETER = 4, 0x11, 0x17
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_RECORD = struct.Struct("<BBH")
_PARAMETER = struct.Struct("<IHHI")
_FRAME = struct.Struct("<II")
_SYMBOL_BYTES = 24


class CubinError(Exception):
    """The image is none; the text says what is wrong, in lower case."""


@frozen
class Cubin:
    """The sections of an image that take bytes of it, by name, as half-open ranges."""

    image: bytes
    sections: dict[str, tuple[int, int]]
    _parameters: dict[str, tuple[tuple[int, int], ...]]
    """Of each kernel that was asked for: a plan may name one by the thousand."""
    _frames: dict[bytes, int]

    def has_kernel(self, name: str) -> bool:
        """Return whether the image has code of that name."""
        return f".text.{name}" in self.sections

    def parameters(self, name: str) -> tuple[tuple[int, int], ...]:
        """Return (offset, size) of each parameter of a kernel, in order; none where the image does not tell."""
        if name not in self._parameters:
            rows = map(_PARAMETER.unpack, self._records(f"{INFO}.{name}", PARAMETER, _PARAMETER.size))
            found = sorted((ordinal, offset, flags >> 18) for _, ordinal, offset, flags in rows)
            self._parameters[name] = tuple((offset, size) for _, offset, size in found)
        return self._parameters[name]

    def code_bytes(self, name: str) -> int:
        """Return the size of a kernel's code."""
        lower, upper = self.sections.get(f".text.{name}", (0, 0))
        return upper - lower

    def local_bytes(self, name: str) -> int:
        """Return the local memory that a thread of a kernel takes, in bytes; 0 where the image does not tell."""
        if not self._frames:
            self._frames.update(self._told_frames())
        return self._frames.get(name.encode(), 0)

    def _told_frames(self) -> dict[bytes, int]:
        """Return the local memory of each function by name, as far as the names together are no longer than the image:
        many records can name one long symbol."""
        found: dict[bytes, int] = {}
        left = len(self.image)
        for symbol, size_bytes in map(_FRAME.unpack, self._records(INFO, FRAME, _FRAME.size)):
            name = self._symbol(symbol, left)
            if name is None:
                break
            left -= len(name)
            found.setdefault(name, int(size_bytes))
        return found

    def _symbol(self, number: int, most: int) -> bytes | None:
        """Return the name of a symbol, empty for one that is not there; None where it is longer than `most` bytes."""
        (lower, upper), (names, end) = (self.sections.get(table, (0, 0)) for table in (".symtab", ".strtab"))
        at = lower + number * _SYMBOL_BYTES
        if at + _SYMBOL_BYTES > upper:
            return b""
        start = names + int.from_bytes(self.image[at : at + 4], "little")
        found = self.image.find(b"\0", start, min(end, start + most + 1))
        return self.image[start:found] if found >= 0 else None

    def _records(self, section: str, wanted: int, size_bytes: int) -> Iterator[bytes]:
        """Yield the contents of the records of an attribute that have a size."""
        at, upper = self.sections.get(section, (0, 0))
        while at + _RECORD.size <= upper:
            form, attribute, size = _RECORD.unpack_from(self.image, at)
            at += _RECORD.size
            if form != SIZED:
                continue  # the content stands in the place of the size
            if attribute == wanted and size == size_bytes and at + size <= upper:
                yield self.image[at : at + size]
            at += size


def read_cubin(image: bytes) -> Cubin:
    """Read the tables of an image. Raises CubinError."""
    if len(image) < 64 or not image.startswith(MAGIC):
        raise CubinError(f"a file that begins with {image[:8].hex(' ') or 'nothing'}")
    kind, machine, _, _, segments_at, sections_at, _, _, *table = _HEADER.unpack_from(image)
    segment_bytes, segments, section_bytes, sections, names = table
    if machine != MACHINE:
        raise CubinError(f"code for machine {machine}, ELF type {kind}")
    if section_bytes != _SECTION.size or (segments and segment_bytes != _SEGMENT.size):
        raise CubinError("tables with rows of another size")
    _check_inside(image, segments_at, segments * _SEGMENT.size, "the table of segments")
    _check_inside(image, sections_at, sections * _SECTION.size, "the table of sections")
    for at in range(segments_at, segments_at + segments * _SEGMENT.size, _SEGMENT.size):
        _, _, offset, _, _, size, _, _ = _SEGMENT.unpack_from(image, at)
        _check_inside(image, offset, size, "a segment")
    if names >= sections:
        raise CubinError("no names of sections")
    rows = [_SECTION.unpack_from(image, sections_at + index * _SECTION.size) for index in range(sections)]
    return Cubin(image, _named(image, rows, names), {}, {})


def _named(image: bytes, rows: list[tuple[int, ...]], names: int) -> dict[str, tuple[int, int]]:
    places = {index: (row[4], row[4] + row[5]) for index, row in enumerate(rows) if row[1] not in (0, NO_BYTES)}
    for lower, upper in places.values():
        _check_inside(image, lower, upper - lower, "a section")
    if names not in places:
        raise CubinError("no names of sections")
    lower, upper = places[names]
    found = {}
    names_left = infos_left = len(image)  # tables may overlap, and then be far longer together than the file
    for index, place in places.items():
        start = lower + rows[index][0]
        end = image.find(b"\0", start, min(upper, start + names_left + 1))
        if end < 0:
            what = "does not end" if start + names_left >= upper else "overlaps others"
            raise CubinError(f"a section whose name {what}")
        names_left -= end - start
        name = image[start:end].decode("latin1")
        infos_left -= place[1] - place[0] if name.startswith(INFO) else 0
        if infos_left < 0:
            raise CubinError(f"sections `{INFO}` that are longer together than the image")
        found[name] = place
    return found


def _check_inside(image: bytes, offset: int, size_bytes: int, what: str) -> None:
    if offset + size_bytes > len(image):
        raise CubinError(f"{what} up to byte {offset + size_bytes} of {len(image)}")
