"""The base of modes that see every op: like torch's own, without the price of dynamo.

Torch wraps `__torch_dispatch__` of a mode so that dynamo compiles nothing inside it, should the model use
`torch.compile`. That imports dynamo, which takes two seconds, and costs some microseconds at each op. Telling dynamo's
hook to pass over the method, and over all that it calls, does the same for nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode whose `dispatch` runs each op in place of torch."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: what torch would do about it is done below."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return self.dispatch(func, args, kwargs or {})

    def dispatch(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run one op and return its results."""
        raise NotImplementedError


set_code_exec_strategy(
    DispatchMode.__torch_dispatch__.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
)
