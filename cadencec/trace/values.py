"""Random values for the inputs of stages, of several scales: silence may take another way through a model."""

import torch
from torch import Tensor

from cadence_runtime.host.program import StageInput
from cadencec.trace.operands import DTYPES

SCALES = (1.0, 0.1, 3.0, 0.0)
"""Standard deviations of float inputs without a range."""


def random_tensor(item: StageInput, sizes: tuple[int, ...], seed: int, scale: float = 1.0) -> Tensor:
    """Return a contiguous CPU tensor of the input's dtype: uniform in [`lower`, `upper`), or normal where a float input
    has no range."""
    dtype = DTYPES[item.dtype]
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_complex:
        return (torch.randn(sizes, dtype=torch.complex128, generator=generator) * scale).to(dtype)
    if dtype.is_floating_point and item.lower is None:
        return (torch.randn(sizes, dtype=torch.float64, generator=generator) * scale).to(dtype)
    lower = 0 if item.lower is None else item.lower
    upper = lower + 2 if item.upper is None else item.upper
    if dtype.is_floating_point:
        # `upper` is one past the last whole number that a spec gives, so it stands for the closed end.
        uniform = torch.rand(sizes, dtype=torch.float64, generator=generator)
        return (lower + uniform * (upper - 1 - lower)).to(dtype)
    return torch.randint(lower, upper, sizes, dtype=torch.int64, generator=generator).to(dtype)
