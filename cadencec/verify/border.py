"""Values across the border of a plan: torch tensors on the side of the comparison, numpy arrays where it is for CUDA.

numpy has no bfloat16 and its like: such arrays carry raw bits, as the runtime's CUDA player hands them out.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cadencec.trace.bits import raw_bytes


def handed(value: object, target: str) -> Any:
    """Return an input as a session of a plan for `target` takes it."""
    if target == "cpu" or not isinstance(value, Tensor):
        return value
    return _carrier(value).numpy()


def received(got: object, expected: object) -> object:
    """Return what a session gave as a tensor of the dtype that is expected, if its bits can be that."""
    if not isinstance(got, np.ndarray):
        return got
    found = torch.from_numpy(got)
    if isinstance(expected, Tensor) and found.dtype == _carrier(expected.new_empty(0)).dtype:
        return found.view(expected.dtype)
    return found


def _carrier(value: Tensor) -> Tensor:
    """Return a tensor of a dtype that numpy has, with the same bits."""
    try:
        torch.empty(0, dtype=value.dtype).numpy()
    except TypeError:
        carriers = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}
        return raw_bytes(value).view(carriers[value.element_size()]).reshape(value.shape)
    return value
