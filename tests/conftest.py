"""Settings for every test: one thread for each worker, no `gpu` test where there is no CUDA device, and no property
that fails because the machine is busy."""

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# Read by torch when it is first imported, here and in the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that runs tests in the background has them ignore interrupts, and so would every process that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    reason = why_no_gpu() if gpu_items else None
    if reason:
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=reason))


def why_no_gpu() -> str | None:
    # Imported only when a gpu test was collected: torch takes seconds.
    import torch

    return None if torch.cuda.is_available() else "no CUDA device here"
