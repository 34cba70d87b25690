"""Kernel images as the driver loads them, and what their ELF tables say.

CUPTI's resource callbacks hand over the final cubin of every module that any library of the process loads. The
collector has to be started before the first CUDA call of the process, or modules loaded earlier are missed.
"""

import ctypes
import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from cadence_runtime.errors import TargetError

RESOURCE_DOMAIN = 3
MODULE_LOADED = 6


class _ResourceData(ctypes.Structure):
    _fields_ = (("context", ctypes.c_void_p), ("handle", ctypes.c_void_p), ("descriptor", ctypes.c_void_p))


class _ModuleData(ctypes.Structure):
    _fields_ = (("module_id", ctypes.c_uint32), ("size", ctypes.c_size_t), ("cubin", ctypes.c_void_p))


_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(_ResourceData))


class ImageCollector:
    """Collects every kernel image loaded while it is open, by the sha256 of its bytes, in the order of loading."""

    def __init__(self) -> None:
        self.images: dict[str, bytes] = {}
        self._cupti = ctypes.CDLL(str(_find_cupti()))
        self._subscriber = ctypes.c_void_p()
        self._callback = _CALLBACK(self._loaded)  # kept: the library holds only its address

    def __enter__(self) -> "ImageCollector":
        self._check("cuptiSubscribe", ctypes.byref(self._subscriber), self._callback, None)
        self._check("cuptiEnableDomain", 1, self._subscriber, RESOURCE_DOMAIN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._check("cuptiUnsubscribe", self._subscriber)

    def _loaded(self, _user: int, domain: int, callback: int, data: "ctypes._Pointer[_ResourceData]") -> None:
        if domain != RESOURCE_DOMAIN or callback != MODULE_LOADED:
            return
        module = ctypes.cast(data.contents.descriptor, ctypes.POINTER(_ModuleData)).contents
        cubin = ctypes.string_at(module.cubin, module.size)  # valid during the callback only
        self.images.setdefault(hashlib.sha256(cubin).hexdigest(), cubin)

    def _check(self, call: str, *arguments: object) -> None:
        code = getattr(self._cupti, call)(*arguments)
        if code != 0:
            raise TargetError(
                "CAD4101",
                f"the profiling interface refused `{call}`",
                expected="CUPTI_SUCCESS",
                got=f"CUptiResult {code}",
                hint="no profiler may be attached to the compiler's process",
            )


def _find_cupti() -> Path:
    """Return the CUPTI library of the CUDA wheels that torch runs with, or of the toolkit."""
    spec = find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    patterns = ((root, "**/libcupti.so*") for root in roots)
    found = [path for root, pattern in patterns for path in sorted(root.glob(pattern))]
    found += sorted(Path("/usr/local").glob("cuda*/**/libcupti.so*"))
    if not found:
        raise TargetError(
            "CAD4102",
            "no CUPTI library was found",
            expected="libcupti.so beside torch's CUDA wheels or under the CUDA toolkit",
            got="none",
            hint="pip install nvidia-cuda-cupti",
        )
    return found[0]


@dataclass(frozen=True, slots=True)
class Symbol:
    """An entry of an image's symbol table. `section` is the name of the section it lives in, `initial` its bytes in
    the image (zeros where the section holds none)."""

    name: str
    kind: int
    section: str
    initial: bytes


FUNCTION, OBJECT = 2, 1


@cache
def symbols(image: bytes) -> tuple[Symbol, ...]:
    """Return the functions and objects of a cubin (a 64-bit little-endian ELF file)."""
    return tuple(_read_symbols(image))


@cache
def functions(image: bytes) -> frozenset[str]:
    """Return the names of the kernels and device functions of a cubin."""
    return frozenset(symbol.name for symbol in symbols(image) if symbol.kind == FUNCTION)


def _read_symbols(image: bytes) -> Iterator[Symbol]:
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + index * entry_bytes) for index in range(count)]

    def text(section: int, offset: int) -> str:
        start = sections[section][4] + offset
        return image[start : image.index(b"\0", start)].decode("latin1")

    for section in sections:
        _, kind, _, _, offset, size, link, *_ = section
        if kind != 2:  # SHT_SYMTAB
            continue
        for at in range(offset, offset + size, 24):
            name, info, _, home, value, length = struct.unpack_from("<IBBHQQ", image, at)
            if info & 15 not in (FUNCTION, OBJECT) or not 0 < home < count:
                continue
            holder = sections[home]
            held = holder[1] != 8  # SHT_NOBITS
            start = holder[4] + value
            initial = (
                image[start : start + length]
                if held and info & 15 == OBJECT
                else bytes(length if info & 15 == OBJECT else 0)
            )
            yield Symbol(text(link, name), info & 15, text(names_index, holder[0]), initial)
