"""How long each part of tracing takes, as a report tells it; nothing that is written depends on it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Parts:
    """Adds up the seconds of parts by name, in the order in which they first begin. Parts do not nest."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count what happens within as a part, whether it fails or not."""
        since = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - since
