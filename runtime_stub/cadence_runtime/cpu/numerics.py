"""The numeric switches that a plan was compiled under, as far as they bear on the CPU."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch


def _flushes_denormals() -> bool:
    return bool(torch.tensor(1e-310, dtype=torch.float64).mul(1.0).item() == 0.0)


SWITCHES: dict[str, tuple[Callable[[], object], Callable[[str], object]]] = {
    "threads": (torch.get_num_threads, lambda text: torch.set_num_threads(int(text))),
    "flush_denormal": (_flushes_denormals, lambda text: torch.set_flush_denormal(text == "true")),
    "float32_matmul_precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
}


def apply(numerics: Iterable[tuple[str, str]]) -> None:
    """Set the process's switches as the plan says; they stay."""
    for name, text in numerics:
        if name in SWITCHES:
            SWITCHES[name][1](text)


@contextmanager
def applied(numerics: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Run with the switches set, and put them back."""
    before = [(name, str(read()).lower()) for name, (read, _) in SWITCHES.items()]
    apply(numerics)
    try:
        yield
    finally:
        apply(before)
