"""Where the tensors of a capture stand on the device, and which buffer an address belongs to.

A placement is made at two bases of the recording range. The same thing has the same number in both: first the named
buffers in the order of `names`, then what libraries keep (workspaces, tables), then the scratch of the capture in the
order of its allocation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

import torch
from cuda.bindings import driver as cu

from cadence_runtime.cuda.bindings import SUCCESS
from cadencec.targets.cuda.allocator import Buffer, RecordingAllocator
from cadencec.targets.cuda.relocate import Place

BufferKind = OneOf["weight", "constant", "leaf", "input", "output", "library", "foreign", "scratch"]


@dataclass(frozen=True, slots=True)
class BufferName:
    """What a buffer holds: a weight, constant, leaf, input or output by name, or the n-th of the other kinds."""

    kind: BufferKind
    name: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A named buffer to place: its size, and the bytes it starts with (a 1-D uint8 tensor on any device) or None."""

    name: BufferName
    size_bytes: int
    content: torch.Tensor | None = None


class Placement:
    """One set of named buffers on the device."""

    def __init__(self, allocator: RecordingAllocator, slots: Sequence[Slot]) -> None:
        self.allocator = allocator
        self.storages: dict[BufferName, torch.Tensor] = {}
        self.numbers: dict[int, int] = {}
        for number, slot in enumerate(slots):
            bytes_ = torch.empty(max(slot.size_bytes, 1), dtype=torch.uint8, device="cuda")
            if slot.content is not None and slot.size_bytes:
                bytes_[: slot.size_bytes].copy_(slot.content)
            self.storages[slot.name] = bytes_
            self.numbers[self._buffer(bytes_).index] = number

    def _buffer(self, tensor: torch.Tensor) -> Buffer:
        found = self.allocator.find(tensor.data_ptr())
        if found is None:
            raise RuntimeError("a tensor was not placed by the recording allocator")
        return found[0]


class Resolver:
    """Turns addresses into places for one recording. Device memory outside the range becomes a `foreign` buffer the
    first time it is met; `foreign` is shared by the recordings of one capture, since such memory does not move."""

    def __init__(self, allocator: RecordingAllocator, numbers: Mapping[int, int], foreign: "ForeignMemory") -> None:
        self._allocator, self._numbers, self._foreign = allocator, dict(numbers), foreign

    def __call__(self, address: int) -> Place | None:
        found = self._allocator.find(address)
        if found is None:
            return self._foreign.place(address)
        number = self._numbers.get(found[0].index)
        return None if number is None else (number, found[1])

    def describe(self, address: int) -> str | None:
        """Name device memory that has no number, or return None for a word that is no device pointer."""
        found = self._allocator.find(address)
        if found is not None:
            return f"buffer {found[0].index} of {found[0].size_bytes} bytes, which is not part of the capture"
        return "device memory of a library" if self._foreign.range_of(address) else None


class ForeignMemory:
    """Device allocations that libraries made for themselves, numbered from `first` in the order they are met."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.ranges: list[tuple[int, int]] = []
        self._known: dict[int, tuple[int, int] | None] = {}

    def place(self, address: int) -> Place | None:
        """Return number and offset of a foreign address, or None when it is no device memory."""
        found = self.range_of(address)
        if found is None:
            return None
        if found not in self.ranges:
            self.ranges.append(found)
        return self.first + self.ranges.index(found), address - found[0]

    def range_of(self, address: int) -> tuple[int, int] | None:
        """Return (address, size) of the device allocation that holds an address, as the driver knows it."""
        if address < 1 << 32 or address >= 1 << 48:
            return None
        if address not in self._known:
            self._known[address] = _allocation(address)
        return self._known[address]


def _allocation(address: int) -> tuple[int, int] | None:
    result, kind = cu.cuPointerGetAttribute(cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)
    if result != SUCCESS or int(kind) != int(cu.CUmemorytype.CU_MEMORYTYPE_DEVICE):
        return None
    result, *found = cu.cuMemGetAddressRange(address)
    return (int(found[0]), int(found[1])) if result == SUCCESS else None
