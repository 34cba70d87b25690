"""Equality of bits: NaNs equal themselves, zero and minus zero differ."""

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
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
