"""The numeric switches of a spec, applied to stock and tracing alike, and put back afterwards."""

from collections.abc import Iterable
from contextlib import AbstractContextManager

import torch

from cadence_runtime.cpu import numerics
from cadence_runtime.cpu.numerics import SWITCHES, Switch, fp32_precision, is_true, matmul_precision

Value = bool | int | str


def applied(switches: Iterable[tuple[str, Value]]) -> AbstractContextManager[None]:
    """Run with the switches of a spec's `numerics` set."""
    return numerics.applied(shown(switches), TABLE)


def shown(switches: Iterable[tuple[str, Value]]) -> tuple[tuple[str, str], ...]:
    """Return the switches as a plan records them."""
    return tuple((name, numerics.text_of(value)) for name, value in switches)


def _tf32() -> bool | str:
    """Return whether TF32 is allowed; where products and cuDNN differ, both as text."""
    products, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    return products if products == cudnn else f"{numerics.text_of(products)} {numerics.text_of(cudnn)}"


def _set_tf32(text: str) -> None:
    products, _, cudnn = text.partition(" ")
    torch.backends.cuda.matmul.allow_tf32 = is_true(products)
    torch.backends.cudnn.allow_tf32 = is_true(cudnn or products)


def _set_benchmark(text: str) -> None:
    torch.backends.cudnn.benchmark = is_true(text)


def _set_deterministic(text: str) -> None:
    torch.backends.cudnn.deterministic = is_true(text)


TABLE: dict[str, Switch] = {
    **SWITCHES,
    "float32_matmul_precision": Switch(matmul_precision, torch.set_float32_matmul_precision),
    "allow_tf32": Switch(_tf32, _set_tf32),
    "cuda.matmul.fp32_precision": fp32_precision("cuda", "matmul"),
    "cudnn_benchmark": Switch(lambda: torch.backends.cudnn.benchmark, _set_benchmark),
    "cudnn_deterministic": Switch(lambda: torch.backends.cudnn.deterministic, _set_deterministic),
}
"""Those that bear on the CPU, which a replay sets as well, and those of CUDA, which its captures hold. A switch that
moves others stands before them, so that all can be put back."""
