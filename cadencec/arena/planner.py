"""Packs buffers with known lifetimes into one address range.

    offset
      ^   +---+       +-----+
      |   | b |       |  d  |        two buffers may share bytes when no moment
      |   +---+--+----+--+--+        lies in both lifetimes
      |   |  a   |  c    |
      +---+------+-------+-----> time

What it guarantees: no two buffers that live at the same time overlap, every offset is aligned, and the same buffers
give the same packing. Greedy orders come first; the search behind them counts placements, never time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ALIGNMENT = 256
SEARCH_PLACEMENTS = 20_000
"""How many single placements the search may spend behind the greedy orders."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes that live from position `lower` to before `upper`. An empty buffer takes no room."""

    name: str
    size_bytes: int
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class Packing:
    """Offsets in the order of the buffers. `lower_bound` is the largest sum of aligned sizes that live at one moment;
    no packing is lower. `method` says which order found it."""

    offsets: tuple[int, ...]
    height_bytes: int
    lower_bound_bytes: int
    method: str

    @property
    def gap_bytes(self) -> int:
        """How far the packing is above the lower bound."""
        return self.height_bytes - self.lower_bound_bytes


Order = Callable[[Buffer], tuple[int, ...]]

ORDERS: dict[str, Order] = {
    "start": lambda buffer: (buffer.lower, -buffer.size_bytes),
    "size": lambda buffer: (-buffer.size_bytes, buffer.lower),
    "area": lambda buffer: (-buffer.size_bytes * (buffer.upper - buffer.lower), buffer.lower),
    "lifetime": lambda buffer: (buffer.lower - buffer.upper, -buffer.size_bytes),
    "end": lambda buffer: (-buffer.upper, -buffer.size_bytes),
}
"""Greedy orders by name: the next buffer goes to the lowest offset that is free over its whole lifetime."""


def aligned(size_bytes: int) -> int:
    """Return the size rounded up to the alignment."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


def plan(buffers: Sequence[Buffer]) -> Packing:
    """Pack the buffers as low as the orders and the search find."""
    shelf = _Shelf(buffers)
    bound = lower_bound(buffers)
    best: tuple[int, str, list[int]] | None = None
    for name, key in ORDERS.items():
        order = sorted(range(len(buffers)), key=lambda index: (*key(buffers[index]), index))
        height = shelf.place(order)
        if best is None or height < best[0]:
            best = (height, name, order)
        if height == bound:
            return shelf.packing(bound, name)
    assert best is not None  # noqa: S101 - there is always a first order
    return _search(shelf, bound, *best)


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Return the largest sum of aligned sizes over the buffers that live at one moment."""
    changes: dict[int, int] = {}
    for buffer in buffers:
        if buffer.upper > buffer.lower:
            changes[buffer.lower] = changes.get(buffer.lower, 0) + aligned(buffer.size_bytes)
            changes[buffer.upper] = changes.get(buffer.upper, 0) - aligned(buffer.size_bytes)
    live = highest = 0
    for moment in sorted(changes):
        live += changes[moment]
        highest = max(highest, live)
    return highest


def _search(shelf: "_Shelf", bound: int, height: int, name: str, order: list[int]) -> Packing:
    """Move the highest buffer to the front of the order, over and over; keep the best order seen."""
    budget = SEARCH_PLACEMENTS - len(order)
    best, seen, current = (height, name, order), {tuple(order)}, order
    shelf.place(order)
    while budget > 0 and best[0] > bound:
        top = shelf.highest()
        current = [top, *(index for index in current if index != top)]
        if tuple(current) in seen:
            break
        seen.add(tuple(current))
        found = shelf.place(current)
        budget -= len(current)
        if found < best[0]:
            best = (found, f"{name}, searched", current)
    shelf.place(best[2])
    return shelf.packing(bound, best[1])


class _Shelf:
    """Buffers being placed, as arrays: lifetimes and sizes of all, offsets of those that are placed."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.lower = np.array([buffer.lower for buffer in buffers], np.int64)
        self.upper = np.array([buffer.upper for buffer in buffers], np.int64)
        self.size = np.array([aligned(buffer.size_bytes) for buffer in buffers], np.int64)
        self.offset: npt.NDArray[np.int64] = np.zeros(len(buffers), np.int64)

    def place(self, order: Sequence[int]) -> int:
        """Place all buffers anew in the given order; return the height."""
        done: npt.NDArray[np.int64] = np.empty(0, np.int64)
        placed = np.zeros(len(self.size), bool)
        for index in order:
            if self.size[index]:
                together = placed & (self.lower < self.upper[index]) & (self.upper > self.lower[index])
                done = np.flatnonzero(together)
                placed[index] = True
            self.offset[index] = self._lowest(index, done) if self.size[index] else 0
        return int((self.offset + self.size).max(initial=0))

    def highest(self) -> int:
        """Return the first buffer that reaches the height."""
        return int(np.argmax(self.offset + self.size))

    def packing(self, bound: int, method: str) -> Packing:
        """Return the placement as it is now."""
        height = int((self.offset + self.size).max(initial=0))
        return Packing(tuple(int(offset) for offset in self.offset), height, bound, method)

    def _lowest(self, index: int, others: npt.NDArray[np.int64]) -> int:
        """Return the lowest offset at which the buffer fits between others of its time."""
        at, size = 0, int(self.size[index])
        for other in others[np.argsort(self.offset[others], kind="stable")]:
            if at + size <= self.offset[other]:
                break
            at = max(at, int(self.offset[other] + self.size[other]))
        return at
