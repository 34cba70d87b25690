"""The one allocation of a CPU plan, and the tensors that stand on it."""

import torch
from torch import Tensor

from cadence_runtime.cpu.literals import DTYPES, HOST
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.tape import View

ALIGNMENT = 256


def zeros(size_bytes: int, what: str) -> Tensor:
    """Return zeroed bytes. Raises DeviceError CAD8011 where there is no memory for them."""
    try:
        return torch.zeros(size_bytes, dtype=torch.uint8, device=HOST)
    except RuntimeError:
        raise DeviceError(
            "CAD8011", f"there is no memory for {what}", expected=f"{size_bytes} bytes", got="the system refused them"
        ) from None


class Arena:
    """`size_bytes` of host memory that starts on a multiple of 256 bytes, zeroed.

    Each tensor on it has a storage of its own that ends where the tensor does and cannot be resized: whatever an op of
    a plan does with it, torch's own checks keep the op from the bytes beside it.
    """

    def __init__(self, size_bytes: int) -> None:
        whole = zeros(size_bytes + ALIGNMENT, "the arena of the plan").numpy()
        skip = -whole.ctypes.data % ALIGNMENT
        self.bytes = whole[skip : skip + size_bytes]

    def part(self, offset: int, size_bytes: int) -> Tensor:
        """Return a range of bytes."""
        return torch.from_numpy(self.bytes[offset : offset + size_bytes])

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
