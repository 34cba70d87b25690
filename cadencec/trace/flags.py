"""The switches of torch that change the bits of an op without being one of its operands."""

from collections.abc import Callable
from typing import Any

import torch

_c: Any = torch._C
_precision: Callable[[str, str], str] = torch._C._get_fp32_precision_getter

FLAG_NAMES = (
    "cuda.matmul.fp32_precision",
    "cudnn.conv.fp32_precision",
    "cudnn.rnn.fp32_precision",
    "mkldnn.matmul.fp32_precision",
    "mkldnn.conv.fp32_precision",
    "cuda.matmul.fp16_reduced_precision",
    "cuda.matmul.bf16_reduced_precision",
    "cudnn.enabled",
    "cudnn.benchmark",
    "cudnn.deterministic",
    "mkldnn.enabled",
    "deterministic_algorithms",
    "default_dtype",
)


def flags() -> tuple[object, ...]:
    """Return every flag as it stands, in the order of `FLAG_NAMES`. It is asked at each op, hence without a loop."""
    return (
        _precision("cuda", "matmul"),
        _precision("cuda", "conv"),
        _precision("cuda", "rnn"),
        _precision("mkldnn", "matmul"),
        _precision("mkldnn", "conv"),
        _c._get_cublas_allow_fp16_reduced_precision_reduction(),
        _c._get_cublas_allow_bf16_reduced_precision_reduction(),
        _c._get_cudnn_enabled(),
        _c._get_cudnn_benchmark(),
        _c._get_cudnn_deterministic(),
        _c._get_mkldnn_enabled(),
        _c._get_deterministic_algorithms(),
        torch.get_default_dtype(),
    )


def numerics(values: tuple[object, ...]) -> tuple[tuple[str, str], ...]:
    """Return flags as sorted (name, value) pairs, with the autocast that is on."""
    named = [(name, _text(value)) for name, value in zip(FLAG_NAMES, values, strict=True)]
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            named.append((f"autocast.{device}", _text(torch.get_autocast_dtype(device))))
    return tuple(sorted(named))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    return str(value).removeprefix("torch.")
