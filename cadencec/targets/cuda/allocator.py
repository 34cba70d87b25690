"""The recording allocator: every device buffer of a capture gets an address that is never used twice.

    base                                              top
    |  weight 0  |gap|  leaf 0  |gap|  scratch 0  |gap|  ...
                  ^ a pointer to the end of a buffer still names that buffer

One range of addresses is reserved; memory is mapped as the top moves. An address therefore tells its buffer, and the
offset in it, for good.
"""

import ctypes
from bisect import bisect_right
from dataclasses import dataclass

import torch
from cuda.bindings import driver as cu

from cadence_runtime.cuda.bindings import call

ALIGNMENT = 512
GAP = 512
CHUNK_BYTES = 256 << 20

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class Buffer:
    """One allocation, by its place in the order of allocation."""

    index: int
    address: int
    size_bytes: int


class RecordingAllocator:
    """Replaces torch's device allocator for the whole process; make it before torch's first device allocation."""

    def __init__(self, address: int, capacity_bytes: int, device: int = 0) -> None:
        self.capacity_bytes = capacity_bytes
        self.base = int(call("cuMemAddressReserve", capacity_bytes, 0, address, 0))
        self.buffers: list[Buffer] = []
        self.live: dict[int, Buffer] = {}
        self.failure: BaseException | None = None
        self._starts: list[int] = []
        self._top = self._mapped = 0
        self._device = device
        self._functions = (_ALLOCATE(self._allocate), _FREE(self._free))  # kept: torch holds only their addresses

    def install(self) -> None:
        """Make torch allocate here from now on."""
        allocate, free = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in self._functions)
        torch._C._cuda_changeCurrentAllocator(torch._C._cuda_customAllocator(allocate, free))

    def find(self, address: int) -> tuple[Buffer, int] | None:
        """Return the buffer that an address lies in, or just behind, and the offset in it."""
        if not self.base <= address < self.base + self._top:
            return None
        buffer = self.buffers[bisect_right(self._starts, address) - 1]
        return buffer, address - buffer.address

    def mark(self) -> int:
        """Return the index of the next buffer."""
        return len(self.buffers)

    def trim(self) -> None:
        """Forget the buffers behind the last live one; their addresses are used again. Call it between captures."""
        last = max((buffer.index for buffer in self.live.values()), default=-1)
        if last + 1 < len(self.buffers):
            self._top = self.buffers[last + 1].address - self.base
            del self.buffers[last + 1 :], self._starts[last + 1 :]

    def _allocate(self, size: int, _device: int, _stream: int | None) -> int:
        try:
            address = self.base + self._top
            self._top += -(-max(size, 1) // ALIGNMENT) * ALIGNMENT + GAP
            self._map(self._top)
        except BaseException as error:
            self.failure = error
            return 0
        buffer = Buffer(len(self.buffers), address, size)
        self.buffers.append(buffer)
        self._starts.append(address)
        self.live[address] = buffer
        return address

    def _free(self, address: int | None, _size: int, _device: int, _stream: int | None) -> None:
        if address is not None:
            self.live.pop(address, None)

    def _map(self, upto: int) -> None:
        while self._mapped < upto:
            if self._mapped + CHUNK_BYTES > self.capacity_bytes:
                raise MemoryError(f"a capture needs more than {self.capacity_bytes} bytes of addresses")
            properties = cu.CUmemAllocationProp()
            properties.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
            properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            properties.location.id = self._device
            memory = call("cuMemCreate", CHUNK_BYTES, properties, 0)
            call("cuMemMap", self.base + self._mapped, CHUNK_BYTES, 0, memory, 0)
            access = cu.CUmemAccessDesc()
            access.location = properties.location
            access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            call("cuMemSetAccess", self.base + self._mapped, CHUNK_BYTES, [access], 1)
            self._mapped += CHUNK_BYTES
