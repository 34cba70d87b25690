"""The numeric switches of a spec, applied to stock and tracing alike, and put back afterwards."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch

Switch = bool | int | str


@contextmanager
def applied(switches: Iterable[tuple[str, Switch]]) -> Iterator[None]:
    """Run with the switches of a spec's `numerics` set."""
    with ExitStack() as stack:
        for name, value in switches:
            read, write = _SWITCHES[name]
            stack.callback(write, read())
            write(value)
        yield


def shown(switches: Iterable[tuple[str, Switch]]) -> tuple[tuple[str, str], ...]:
    """Return the switches as a plan records them."""
    return tuple((name, str(value).lower() if isinstance(value, bool) else str(value)) for name, value in switches)


def _flushes_denormals() -> bool:
    return bool(torch.tensor(1e-310, dtype=torch.float64).mul(1.0).item() == 0.0)


def _set_tf32(value: Switch) -> None:
    torch.backends.cuda.matmul.allow_tf32 = bool(value)
    torch.backends.cudnn.allow_tf32 = bool(value)


def _set_benchmark(value: Switch) -> None:
    torch.backends.cudnn.benchmark = bool(value)


def _set_deterministic(value: Switch) -> None:
    torch.backends.cudnn.deterministic = bool(value)


_SWITCHES: dict[str, tuple[Callable[[], Switch], Callable[[Switch], object]]] = {
    "allow_tf32": (lambda: torch.backends.cuda.matmul.allow_tf32, _set_tf32),
    "cudnn_benchmark": (lambda: torch.backends.cudnn.benchmark, _set_benchmark),
    "cudnn_deterministic": (lambda: torch.backends.cudnn.deterministic, _set_deterministic),
    "deterministic_algorithms": (
        torch.are_deterministic_algorithms_enabled,
        lambda value: torch.use_deterministic_algorithms(bool(value)),
    ),
    "float32_matmul_precision": (
        torch.get_float32_matmul_precision,
        lambda value: torch.set_float32_matmul_precision(str(value)),
    ),
    "flush_denormal": (_flushes_denormals, lambda value: torch.set_flush_denormal(bool(value))),
    "threads": (torch.get_num_threads, lambda value: torch.set_num_threads(int(value))),
}
