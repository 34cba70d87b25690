"""The recording allocator: in a capture every device buffer gets an address that no other buffer of it has.

    base                                              top
    |  weight 0  |gap|  leaf 0  |gap|  scratch 0  |gap|  ...
                  ^ a pointer to the end of a buffer still names that buffer

One range of addresses is reserved; memory is mapped as the top moves. While `recording`, the top only moves up, so that
an address tells its buffer, and the offset in it. Otherwise memory that was freed is used again, by size and stream.
"""

import ctypes
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace

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
    """One allocation, by its place in the order of addresses. `room_bytes` is what there is until the next one."""

    index: int
    address: int
    size_bytes: int
    room_bytes: int
    stream: int


class RecordingAllocator:
    """Replaces torch's device allocator for the whole process; make it before torch's first device allocation."""

    def __init__(self, address: int, capacity_bytes: int, device: int = 0) -> None:
        self.capacity_bytes = capacity_bytes
        self.base = int(call("cuMemAddressReserve", capacity_bytes, 0, address, 0))
        self.buffers: list[Buffer] = []
        self.live: dict[int, Buffer] = {}
        self.failure: BaseException | None = None
        self.recording = False
        self._free_indices: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._starts: list[int] = []
        self._top = self.mapped_bytes = 0
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
        """Use again, from here on, whatever is not live. Call it between captures, when the device is idle."""
        last = max((buffer.index for buffer in self.live.values()), default=-1)
        if last + 1 < len(self.buffers):
            self._top = self.buffers[last + 1].address - self.base
            del self.buffers[last + 1 :], self._starts[last + 1 :]
        self._free_indices.clear()
        for buffer in reversed(self.buffers):
            if buffer.address not in self.live:
                self._free_indices[buffer.room_bytes, buffer.stream].append(buffer.index)

    def _allocate(self, size: int, _device: int, stream: int | None) -> int:
        room = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT + GAP
        try:
            buffer = self._reused(size, room, stream or 0) or self._appended(size, room, stream or 0)
        except BaseException as error:
            self.failure = error
            return 0
        self.live[buffer.address] = buffer
        return buffer.address

    def _reused(self, size: int, room: int, stream: int) -> Buffer | None:
        """Return a buffer of just this room that the stream has freed."""
        free = self._free_indices.get((room, stream))
        if self.recording or not free:
            return None
        index = free.pop()
        self.buffers[index] = replace(self.buffers[index], size_bytes=size)
        return self.buffers[index]

    def _appended(self, size: int, room: int, stream: int) -> Buffer:
        buffer = Buffer(len(self.buffers), self.base + self._top, size, room, stream)
        self._map(self._top + room)
        self._top += room
        self.buffers.append(buffer)
        self._starts.append(buffer.address)
        return buffer

    def _free(self, address: int | None, _size: int, _device: int, _stream: int | None) -> None:
        buffer = None if address is None else self.live.pop(address, None)
        if buffer is not None and not self.recording:
            self._free_indices[buffer.room_bytes, buffer.stream].append(buffer.index)

    def _map(self, upto: int) -> None:
        while self.mapped_bytes < upto:
            if self.mapped_bytes + CHUNK_BYTES > self.capacity_bytes:
                raise MemoryError(f"a capture needs more than {self.capacity_bytes} bytes of addresses")
            properties = cu.CUmemAllocationProp()
            properties.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
            properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            properties.location.id = self._device
            memory = call("cuMemCreate", CHUNK_BYTES, properties, 0)
            call("cuMemMap", self.base + self.mapped_bytes, CHUNK_BYTES, 0, memory, 0)
            access = cu.CUmemAccessDesc()
            access.location = properties.location
            access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            call("cuMemSetAccess", self.base + self.mapped_bytes, CHUNK_BYTES, [access], 1)
            self.mapped_bytes += CHUNK_BYTES
