"""Bits of tensors: equality, under which NaNs equal themselves and zero and minus zero differ, and exact copies."""

import torch
from torch import Tensor


def same_bits(left: object, right: object) -> bool:
    """Return whether two values are the same: for tensors dtype, sizes, strides and every byte of every element."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        same_form = left.dtype == right.dtype and left.shape == right.shape and left.stride() == right.stride()
        return same_form and torch.equal(raw_bytes(left), raw_bytes(right).to(left.device))
    return type(left) is type(right) and left == right


def raw_bytes(tensor: Tensor) -> Tensor:
    """Return the elements in order as a one-dimensional uint8 tensor."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous()
    # A tensor of one element is contiguous whatever its strides say, and `view` goes by what they say.
    return flat.as_strided((flat.numel(),), (1,)).view(torch.uint8)


def copy_into(target: Tensor, value: Tensor) -> None:
    """Copy a tensor into a window that may overlap itself (an expanded or unfolded one), which torch refuses."""
    if not overlaps_itself(target):
        target.copy_(value)
        return
    span = 1 + sum((size - 1) * stride for size, stride in zip(target.shape, target.stride(), strict=True))
    flat = target.as_strided((span,), (1,), target.storage_offset())
    places = torch.arange(span, device=target.device).as_strided(target.shape, target.stride())
    flat[places.reshape(-1)] = value.reshape(-1)


def copied(value: Tensor) -> Tensor:
    """Return a copy with the same strides."""
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    copy_into(copy, value)
    return copy


def overlaps_itself(tensor: Tensor) -> bool:
    """Return whether two elements may lie at one place."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= reach:
            return tensor.numel() > 0
        reach += (size - 1) * stride
    return False
