"""Kernel images, by the page's "Images"."""

import struct

from .refused import need

Sections = dict[str, bytes]
"""The content of each section of an image, by name."""


def sections(image: bytes) -> Sections:
    """Return what an image holds; every table and section lies inside it."""
    need(len(image) >= 64 and image[:7] == b"\x7fELF\2\1\1", "an ELF file of 64 bits, little-endian")
    _, machine, _, _, segments_at, table_at, _, _, segment, segments, row, count, names = struct.unpack_from(
        "<HHIQQQIHHHHHH", image, 16
    )
    need(machine == 190, "code for NVIDIA's machine")
    need(row == 64 and (segments == 0 or segment == 56), "rows of tables")
    need(segments_at + 56 * segments <= len(image) and table_at + 64 * count <= len(image), "tables inside")
    for number in range(segments):
        offset, size = struct.unpack_from("<8xQ16xQ", image, segments_at + 56 * number)
        need(offset + size <= len(image), "segments inside")
    found = {}
    for number in range(count):
        name, kind, offset, size = struct.unpack_from("<II16xQQ", image, table_at + 64 * number)
        if kind not in (0, 8):
            need(offset + size <= len(image), "sections inside")
            found[number] = name, image[offset : offset + size]
    need(names in found, "names of sections")
    texts = found[names][1]
    need(all(b"\0" in texts[start:] for start, _ in found.values()), "names of sections end")
    named = [(texts[start : texts.index(b"\0", start)], data) for start, data in found.values()]
    need(sum(len(name) for name, _ in named) <= len(image), "names no longer together than the image")
    told = sum(len(data) for name, data in named if name.startswith(b".nv.info"))
    need(told <= len(image), "what is told of kernels is no longer than the image")
    return {texts[start : texts.index(b"\0", start)].decode("latin1"): data for start, data in found.values()}


def parameters(image: Sections, kernel: str) -> list[tuple[int, int]]:
    """Return (offset, size) of each parameter of a kernel, none where the image does not tell."""
    data, at, found = image.get(f".nv.info.{kernel}", b""), 0, []
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == 4:
            if (attribute, size) == (0x17, 12) and at + 12 <= len(data):
                _, ordinal, offset, flags = struct.unpack_from("<IHHI", data, at)
                found.append((ordinal, offset, flags >> 18))
            at += size
    return [(offset, size) for _, offset, size in sorted(found)]
