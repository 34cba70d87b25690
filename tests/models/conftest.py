"""What tests of adapters have in common."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def one_thread_without_grad() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)
