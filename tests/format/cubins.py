"""Kernel images without code: as much of a cubin as says which kernels are in it and what they take."""

import struct
from collections.abc import Mapping, Sequence

Parameters = Sequence[tuple[int, int]]
"""(offset, size) of each parameter of a kernel."""


def cubin(kernels: Mapping[str, Parameters], local: Mapping[str, int] | None = None) -> bytes:
    """Return an image with these kernels; `local` is the local memory that threads of some take, in bytes."""
    sections = {".shstrtab": b""}
    for name, parameters in kernels.items():
        sections[f".text.{name}"] = b"code"
        sections[f".nv.info.{name}"] = b"".join(map(_record, range(len(parameters)), parameters))
    if local is not None:
        strings = b"\0" + b"".join(name.encode() + b"\0" for name in local)
        starts = [strings.index(b"\0" + name.encode() + b"\0") + 1 for name in local]
        sections[".strtab"] = strings
        sections[".symtab"] = bytes(24) + b"".join(struct.pack("<IBBHQQ", at, 0x12, 0, 0, 0, 0) for at in starts)
        sections[".nv.info"] = b"".join(
            struct.pack("<BBHII", 4, 0x11, 8, index + 1, size) for index, size in enumerate(local.values())
        )
    names = b"\0" + b"".join(name.encode() + b"\0" for name in sections)
    sections[".shstrtab"] = names
    body, rows, at = b"", [bytes(64)], 64
    for name, data in sections.items():
        start = names.index(b"\0" + name.encode() + b"\0") + 1
        rows.append(struct.pack("<IIQQQQIIQQ", start, 1, 0, 0, at, len(data), 0, 0, 1, 0))
        body, at = body + data, at + len(data)
    fields = (2, 190, 128, 0, 0, at, 0x5A, 64, 56, 0, 64, len(rows), 1)
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", *fields) + body + b"".join(rows)


def _record(ordinal: int, parameter: tuple[int, int]) -> bytes:
    offset, size = parameter
    return struct.pack("<BBHIHHI", 4, 0x17, 12, 0, ordinal, offset, size << 18)
