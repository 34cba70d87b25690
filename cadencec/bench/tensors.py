"""Rows of arrays as torch tensors, and back."""

import json
from typing import Any

import torch

from cadencec.bench.rows import Array, literal


def tensor_of(array: Array) -> Any:
    """Return an array as a tensor of its own, or the value that is none."""
    if array.dtype == "literal":
        return json.loads(bytes(array.data))
    dtype = getattr(torch, array.dtype)
    if not array.data:
        return torch.empty(array.sizes, dtype=dtype)
    return torch.frombuffer(bytearray(array.data), dtype=dtype).reshape(array.sizes)


def array_of(name: str, value: object) -> Array:
    """Return a tensor, or a value that is none, as bytes."""
    if not isinstance(value, torch.Tensor):
        return literal(name, value)
    flat = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return Array(name, str(value.dtype).removeprefix("torch."), tuple(value.shape), data)
