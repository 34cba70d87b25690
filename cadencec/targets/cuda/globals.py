"""Device variables that a library wrote into its image after loading it.

Loading an image privately gives variables their initial bytes again; cuFFT, for one, keeps the address of its tables
in one. Each object symbol's live bytes are compared with the image's own, and what differs becomes part of the plan.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver as cu

from cadence_runtime.cuda.bindings import SUCCESS, call
from cadencec.targets.cuda.images import OBJECT, functions, symbols
from cadencec.targets.cuda.relocate import Place

VARIABLE_SECTIONS = (".nv.global", ".nv.constant3")


@dataclass(frozen=True, slots=True)
class LiveGlobal:
    """A variable whose bytes differ from its image's. `pointers` pair a byte offset in it with the place it points
    to; those bytes are zero in `data`."""

    image: str
    name: str
    data: bytes
    pointers: tuple[tuple[int, Place], ...]


def holders(images: Mapping[str, bytes], kernel: str) -> tuple[str, ...]:
    """Return the digests of the images that define a kernel, in the order of loading."""
    return tuple(digest for digest, image in images.items() if kernel in functions(image))


def live_globals(
    digest: str, image: bytes, function: Any, resolve: Callable[[int], Place | None]
) -> Iterator[LiveGlobal]:
    """Yield the changed variables of a loaded image, given one of its functions."""
    module = call("cuFuncGetModule", function)
    for symbol in symbols(image):
        if symbol.kind != OBJECT or not symbol.initial or not symbol.section.startswith(VARIABLE_SECTIONS):
            continue
        result, *found = cu.cuModuleGetGlobal(module, symbol.name.encode())
        if result != SUCCESS:
            continue  # a variable the driver does not expose cannot have been written through it
        data = _download(int(found[0]), int(found[1]))
        if data != symbol.initial:
            yield _with_pointers(digest, symbol.name, data, resolve)


def _with_pointers(digest: str, name: str, data: bytes, resolve: Callable[[int], Place | None]) -> LiveGlobal:
    pointers, plain = [], bytearray(data)
    for at in range(0, len(data) - 7, 8):
        place = resolve(int.from_bytes(data[at : at + 8], "little"))
        if place is not None:
            pointers.append((at, place))
            plain[at : at + 8] = bytes(8)
    return LiveGlobal(digest, name, bytes(plain), tuple(pointers))


def _download(address: int, size: int) -> bytes:
    host = ctypes.create_string_buffer(size)
    call("cuMemcpyDtoH", ctypes.addressof(host), address, size)
    return host.raw
