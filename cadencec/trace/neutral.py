"""The state of torch under which a stage is recorded and its stock is compared: no autograd, no inference mode.

Under `inference_mode` composite ops reach a dispatch mode whole and kernels are chosen by other routes, so the bits of
a recording would not be those of the ops below. `no_grad` has the same values and no such routes.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import grad_mode

_optimized_execution: Any = torch.jit.optimized_execution  # type: ignore[attr-defined]


@contextmanager
def neutral() -> Iterator[None]:
    """Run without autograd, with every `inference_mode` inside turned into `no_grad`, and scripted code unoptimised."""
    mode: Any = grad_mode.inference_mode
    kept = mode.__enter__, mode.__exit__
    with torch.inference_mode(False), torch.no_grad(), _optimized_execution(False):
        mode.__enter__, mode.__exit__ = _enter, _exit
        try:
            yield
        finally:
            mode.__enter__, mode.__exit__ = kept


@contextmanager
def no_collection() -> Iterator[None]:
    """Hold the garbage collector: it would walk all that a recording makes, again and again, and find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def settled() -> Iterator[None]:
    """Spare what is there now from the garbage collector: imports and models are many objects, and stay."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _enter(self: Any) -> None:
    guards = self.__dict__.setdefault("_cadence_guards", [])
    guards.append(torch.no_grad())
    guards[-1].__enter__()


def _exit(self: Any, *error: object) -> None:
    self.__dict__["_cadence_guards"].pop().__exit__(*error)
