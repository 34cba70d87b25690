"""The switches of torch that change the bits of an op without being one of its operands."""

from collections.abc import Callable
from functools import partial

import torch

_precision: Callable[[str, str], str] = torch._C._get_fp32_precision_getter

_FLAGS: tuple[tuple[str, Callable[[], object]], ...] = (
    ("cuda.matmul.fp32_precision", partial(_precision, "cuda", "matmul")),
    ("cudnn.conv.fp32_precision", partial(_precision, "cuda", "conv")),
    ("cudnn.rnn.fp32_precision", partial(_precision, "cuda", "rnn")),
    ("mkldnn.matmul.fp32_precision", partial(_precision, "mkldnn", "matmul")),
    ("mkldnn.conv.fp32_precision", partial(_precision, "mkldnn", "conv")),
    ("cuda.matmul.fp16_reduced_precision", torch._C._get_cublas_allow_fp16_reduced_precision_reduction),
    ("cuda.matmul.bf16_reduced_precision", torch._C._get_cublas_allow_bf16_reduced_precision_reduction),
    ("cudnn.enabled", torch._C._get_cudnn_enabled),
    ("cudnn.benchmark", torch._C._get_cudnn_benchmark),
    ("cudnn.deterministic", torch._C._get_cudnn_deterministic),
    ("mkldnn.enabled", torch._C._get_mkldnn_enabled),
    ("deterministic_algorithms", torch._C._get_deterministic_algorithms),
    ("default_dtype", torch.get_default_dtype),
)

FLAG_NAMES = tuple(name for name, _ in _FLAGS)
_GETTERS = tuple(getter for _, getter in _FLAGS)


def flags() -> tuple[object, ...]:
    """Return every flag as it stands, in the order of `FLAG_NAMES`."""
    return tuple([getter() for getter in _GETTERS])


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
