"""The one allocation of a CPU plan, and the tensors that stand on it."""

import os
from pathlib import Path

import torch
from torch import Tensor

from cadence_runtime.cpu.literals import DTYPES, HOST
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.tape import View

ALIGNMENT = 256
MEMINFO = Path("/proc/meminfo")


def free_bytes() -> int:
    """Return the memory that can be had without swapping, as the system estimates it; where it does not tell, the pages
    that are free."""
    try:
        lines = MEMINFO.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def zeros(size_bytes: int, what: str) -> Tensor:
    """Return zeroed bytes. Raises DeviceError CAD8011 where there is no memory for them."""
    try:
        return torch.zeros(size_bytes, dtype=torch.uint8, device=HOST)
    except RuntimeError:
        raise DeviceError(
            "CAD8011", f"there is no memory for {what}", expected=f"{size_bytes} bytes", got="the system refused them"
        ) from None


class Arena:
    """`size_bytes` of host memory that starts on a multiple of 256 bytes, zeroed. The first `lent_bytes`, themselves a
    multiple of 256, may be another arena's.

    Each tensor on it has a storage of its own that ends where the tensor does and cannot be resized: whatever an op of
    a plan does with it, torch's own checks keep the op from the bytes beside it.
    """

    def __init__(self, size_bytes: int, lender: "Arena | None" = None, lent_bytes: int = 0) -> None:
        self.lender, self.lent_bytes = lender, lent_bytes
        own_bytes = size_bytes - lent_bytes
        whole = zeros(own_bytes + ALIGNMENT, "the arena of the plan").numpy()
        skip = -whole.ctypes.data % ALIGNMENT
        self.bytes = whole[skip : skip + own_bytes]

    def part(self, offset: int, size_bytes: int) -> Tensor:
        """Return a range of bytes."""
        if self.lender is not None and offset < self.lent_bytes:
            return self.lender.part(offset, size_bytes)
        lower = offset - self.lent_bytes
        return torch.from_numpy(self.bytes[lower : lower + size_bytes])

    def tensor(
        self, offset: int, dtype: str, sizes: tuple[int, ...], strides: tuple[int, ...], first: int = 0
    ) -> Tensor:
        """Return a tensor whose storage begins at byte `offset` and whose elements begin `first` elements later."""
        kind = DTYPES[dtype]
        if 0 in sizes:
            return torch.empty_strided(sizes, strides, dtype=kind, device=HOST)
        last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        storage = self.part(offset, (first + last + 1) * kind.itemsize).untyped_storage()
        return torch.empty(0, dtype=kind, device=HOST).set_(storage, first, sizes, strides)

    def view(self, offset: int, view: View) -> Tensor:
        """Return a tape's view of a storage that begins at byte `offset`."""
        tensor = self.tensor(offset, view.dtype, view.sizes, view.strides, view.offset)
        tensor = torch._conj(tensor) if view.conj else tensor
        return torch._neg_view(tensor) if view.neg else tensor
