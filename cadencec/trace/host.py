"""Ways in which Python reads a tensor without an op: they are watched while a stage is recorded.

`.tolist()`, `.numpy()` and the like pass a constant and refuse anything else. `copy.deepcopy` copies bytes behind
torch's back; here it is made of ops, with the same result and the same sharing of storages.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from cadencec.trace.mode import Recorder

READERS = ("tolist", "numpy", "__array__", "__dlpack__", "__reduce_ex__")


@contextmanager
def watched(recorder: Recorder) -> Iterator[None]:
    """Report every read of a tensor by the host to the recorder."""
    kept = {name: Tensor.__dict__.get(name) for name in (*READERS, "__deepcopy__")}
    for name in READERS:
        setattr(Tensor, name, _reader(name, recorder))
    Tensor.__deepcopy__ = _deepcopy  # type: ignore[method-assign]
    try:
        yield
    finally:
        for name, method in kept.items():
            if method is None:
                delattr(Tensor, name)
            else:
                setattr(Tensor, name, method)


def _reader(name: str, recorder: Recorder) -> Callable[..., Any]:
    original = getattr(Tensor, name)

    def read(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            recorder.reading(self, f"Tensor.{name}")
        return original(self, *args, **kwargs)

    return read


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """Copy the whole storage, once for all tensors that share it, and stand a tensor like `self` on the copy."""
    if id(self) in memo:
        return memo[id(self)]  # type: ignore[no-any-return]
    storage = self.untyped_storage()
    if storage._cdata not in memo:
        memo[storage._cdata] = torch.empty(0, dtype=torch.uint8, device=self.device).set_(storage).clone()
    copy = torch.empty(0, dtype=self.dtype, device=self.device)
    copy.set_(memo[storage._cdata].untyped_storage(), self.storage_offset(), self.shape, self.stride())
    result = nn.Parameter(copy, self.requires_grad) if isinstance(self, nn.Parameter) else copy
    memo[id(self)] = result
    return result
