"""Where the tensors of a capture stand on the device, and which buffer an address belongs to.

A placement is made at two bases of the recording range. The same thing has the same number in both: named buffers count
from 0 in the order of their slots, what libraries keep inside the range (workspaces, generator words) from `LIBRARY`,
device memory outside of it from `FOREIGN`, and the scratch of the capture from `SCRATCH` in the order of allocation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

import torch
from cuda.bindings import driver as cu

from cadence_runtime.cuda.bindings import SUCCESS
from cadencec.targets.cuda.allocator import Buffer, RecordingAllocator
from cadencec.targets.cuda.relocate import Place

LIBRARY, FOREIGN, SCRATCH = 1 << 24, 1 << 25, 1 << 26

SlotKind = OneOf["weight", "constant", "leaf", "input", "output"]


@dataclass(frozen=True, slots=True)
class SlotName:
    """What a named buffer holds: a weight, constant, leaf, input or output, by its name in the tape."""

    kind: SlotKind
    name: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A named buffer to place: its size, and the bytes it starts with (a 1-D uint8 tensor on any device) or None."""

    name: SlotName
    size_bytes: int
    content: torch.Tensor | None = None


class Placement:
    """One set of named buffers on the device."""

    def __init__(self, allocator: RecordingAllocator, slots: Sequence[Slot]) -> None:
        self.allocator, self.slots = allocator, tuple(slots)
        self.storages: dict[SlotName, torch.Tensor] = {}
        self.numbers: dict[int, int] = {}
        for number, slot in enumerate(slots):
            data = torch.empty(max(slot.size_bytes, 1), dtype=torch.uint8, device="cuda")
            if slot.content is not None and slot.size_bytes:
                data[: slot.size_bytes].copy_(slot.content)
            self.storages[slot.name] = data
            self.numbers[self._buffer(data).index] = number

    def _buffer(self, tensor: torch.Tensor) -> Buffer:
        found = self.allocator.find(tensor.data_ptr())
        if found is None:
            raise RuntimeError("a tensor was not placed by the recording allocator")
        return found[0]


class OutsideMemory:
    """What a capture points to besides named buffers and scratch, numbered in the order it is met. Shared by the two
    recordings of a capture, since such memory stays where it is."""

    def __init__(self) -> None:
        self.library: list[Buffer] = []
        self.foreign: list[tuple[int, int]] = []
        self._known: dict[int, tuple[int, int] | None] = {}

    def in_range(self, buffer: Buffer, offset: int) -> Place:
        """Return the place of an address in a live buffer that no slot names."""
        if buffer not in self.library:
            self.library.append(buffer)
        return LIBRARY + self.library.index(buffer), offset

    def out_of_range(self, address: int) -> Place | None:
        """Return the place of an address in other device memory, or None when it is none."""
        found = self.allocation(address)
        if found is None:
            return None
        if found not in self.foreign:
            self.foreign.append(found)
        return FOREIGN + self.foreign.index(found), address - found[0]

    def allocation(self, address: int) -> tuple[int, int] | None:
        """Return (address, size) of the device allocation that holds an address, as the driver knows it."""
        if not 1 << 32 <= address < 1 << 48:
            return None
        if address not in self._known:
            self._known[address] = _allocation(address)
        return self._known[address]

    def range_of(self, number: int) -> tuple[int, int]:
        """Return (address, size) of a numbered buffer."""
        if number >= FOREIGN:
            return self.foreign[number - FOREIGN]
        buffer = self.library[number - LIBRARY]
        return buffer.address, buffer.size_bytes


class Resolver:
    """Turns addresses into places for one recording; `first_scratch` is the allocator's mark where it began."""

    def __init__(self, placement: Placement, first_scratch: int, outside: OutsideMemory) -> None:
        self._allocator, self._numbers = placement.allocator, placement.numbers
        self._first_scratch, self._outside = first_scratch, outside

    def __call__(self, address: int) -> Place | None:
        """Return the place of an address, or None for a word that points nowhere known."""
        found = self._allocator.find(address)
        if found is None:
            return self._outside.out_of_range(address)
        buffer, offset = found
        if offset > buffer.size_bytes:
            return None  # between two buffers: bytes that nobody wrote and that happen to look like an address
        if buffer.index >= self._first_scratch:
            return SCRATCH + buffer.index - self._first_scratch, offset
        number = self._numbers.get(buffer.index)
        if number is not None:
            return number, offset
        return self._outside.in_range(buffer, offset) if buffer.address in self._allocator.live else None

    def describe(self, address: int) -> str | None:
        """Name device memory that resolves to nothing, or return None for a word that is no device pointer."""
        found = self._allocator.find(address)
        if found is not None and found[1] > found[0].size_bytes:
            return None
        if found is not None:
            return f"a buffer of {found[0].size_bytes} bytes that was freed before the capture"
        return "device memory of a library" if self._outside.allocation(address) else None


def _allocation(address: int) -> tuple[int, int] | None:
    result, kind = cu.cuPointerGetAttribute(cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)
    if result != SUCCESS or int(kind) != int(cu.CUmemorytype.CU_MEMORYTYPE_DEVICE):
        return None
    result, *found = cu.cuMemGetAddressRange(address)
    return (int(found[0]), int(found[1])) if result == SUCCESS else None
