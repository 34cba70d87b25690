"""Packs buffers with known lifetimes into one address range.

    offset
      ^   +---+       +-----+
      |   | b |       |  d  |        two buffers may share bytes when no moment
      |   +---+--+----+--+--+        lies in both lifetimes
      |   |  a   |  c    |
      +---+------+-------+-----> time

What it guarantees: no two buffers that live at the same time overlap, every offset is aligned, and the same buffers
give the same packing. Greedy orders come first, `start` before all others: there, what comes later moves nothing that
came before, so the offsets of an unchanged beginning stay what they were. The search behind them counts placements,
never time; few buffers are searched to the end, so their packing is the best there is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ALIGNMENT = 256
SEARCH_PLACEMENTS = 20_000
"""How many single placements the search may spend behind the greedy orders."""
EXHAUSTIVE_BUFFERS = 10
"""Up to so many buffers every packing is tried, within the same number of placements."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes that live from position `lower` to before `upper`. An empty buffer takes no room."""

    name: str
    size_bytes: int
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class Packing:
    """Offsets in the order of the buffers. `lower_bound_bytes` is the largest sum of aligned sizes that live at one
    moment; no packing is lower. `method` says which order or search found it."""

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


def plan(buffers: Sequence[Buffer], enough_bytes: int = 0) -> Packing:
    """Pack the buffers as low as the orders and the search find.

    A packing of at most `enough_bytes` ends the work: where several packings share one range in turn, only the highest
    of them counts. Raises ValueError for a buffer that ends before it starts.
    """
    shelf, bound = _Shelf(buffers), lower_bound(buffers)
    best: _Found | None = None
    for name, key in ORDERS.items():
        order = sorted(range(len(buffers)), key=lambda index: (*key(buffers[index]), index))
        found = _Found(shelf.place(order), name, tuple(order))
        best = found if best is None or found.height < best.height else best
        if best.height <= max(bound, enough_bytes):
            break
    else:
        best = _search(shelf, max(bound, enough_bytes), best or found)
    if best is not found:  # else it stands as it was placed last
        shelf.place(best.order)
    return shelf.packing(bound, best.method)


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


@dataclass(frozen=True, slots=True)
class _Found:
    """A height, and the order of placing that gives it."""

    height: int
    method: str
    order: tuple[int, ...]


def _search(shelf: "_Shelf", goal: int, best: _Found) -> _Found:
    """Return the best order that is found within the budget."""
    if np.count_nonzero(shelf.size) <= EXHAUSTIVE_BUFFERS:
        return _Exhaustive(shelf, goal, best).run()
    return _lower_the_highest(shelf, goal, best)


def _lower_the_highest(shelf: "_Shelf", goal: int, best: _Found) -> _Found:
    """Move the highest buffer to the front of the order, over and over; keep the best order seen."""
    budget = SEARCH_PLACEMENTS - len(best.order)
    seen, current, name = {best.order}, best.order, best.method
    shelf.place(current)
    while budget > 0 and best.height > goal:
        top = shelf.highest()
        current = (top, *(index for index in current if index != top))
        if current in seen:
            break
        seen.add(current)
        height = shelf.place(current)
        budget -= len(current)
        if height < best.height:
            best = _Found(height, f"{name}, searched", current)
    return best


class _Exhaustive:
    """Tries every packing that is worth it. Any packing can be pressed down until each buffer, taken by ascending
    offset, lies as low as those before it allow: so only such orders are followed, and only below the best height."""

    def __init__(self, shelf: "_Shelf", goal: int, best: _Found) -> None:
        self.shelf, self.goal, self.best, self.budget = shelf, goal, best, SEARCH_PLACEMENTS
        self.empty = tuple(int(index) for index in np.flatnonzero(shelf.size == 0))

    def run(self) -> _Found:
        self.shelf.clear()
        self._extend((), 0, 0)
        return self.best

    def _extend(self, order: tuple[int, ...], offset: int, height: int) -> None:
        if len(order) + len(self.empty) == len(self.shelf.size):
            self.best = _Found(height, "exhaustive", order + self.empty)
            return
        for index in map(int, np.flatnonzero((self.shelf.size > 0) & ~self.shelf.placed)):
            if self.budget == 0 or self.best.height <= self.goal:
                return
            self.budget -= 1
            at = self.shelf.lowest(index)
            top = max(height, at + int(self.shelf.size[index]))
            if at >= offset and top < self.best.height:
                self.shelf.put(index, at)
                self._extend((*order, index), at, top)
                self.shelf.placed[index] = False


class _Shelf:
    """Buffers being placed, as arrays: lifetimes and aligned sizes of all, offsets of those that are placed."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            if buffer.upper < buffer.lower:
                raise ValueError(f"buffer `{buffer.name}` ends before it starts")
        self.lower = np.array([buffer.lower for buffer in buffers], np.int64)
        self.upper = np.array([buffer.upper for buffer in buffers], np.int64)
        alive = self.upper > self.lower
        self.size = np.array([aligned(buffer.size_bytes) for buffer in buffers], np.int64) * alive
        self.offset: npt.NDArray[np.int64] = np.zeros(len(buffers), np.int64)
        self.placed: npt.NDArray[np.bool_] = np.zeros(len(buffers), bool)

    def clear(self) -> None:
        """Take everything off."""
        self.offset[:] = 0
        self.placed[:] = False

    def place(self, order: Sequence[int]) -> int:
        """Place all buffers anew in the given order; return the height."""
        self.clear()
        for index in order:
            if self.size[index]:
                self.put(index, self.lowest(index))
        return self.height()

    def put(self, index: int, offset: int) -> None:
        """Place one buffer."""
        self.offset[index] = offset
        self.placed[index] = True

    def lowest(self, index: int) -> int:
        """Return the lowest offset at which a buffer fits between those of its time that are placed."""
        together = self.placed & (self.lower < self.upper[index]) & (self.upper > self.lower[index])
        others = together.nonzero()[0]
        if not len(others):
            return 0
        starts = self.offset[others]
        order = starts.argsort(kind="stable")
        starts, sizes = starts[order], self.size[others][order]
        ends = np.maximum.accumulate(starts + sizes)
        if starts[0] >= self.size[index]:
            return 0
        fits = starts[1:] - ends[:-1] >= self.size[index]
        return int(ends[:-1][fits][0] if fits.any() else ends[-1])

    def height(self) -> int:
        """Return where the highest buffer ends."""
        return int((self.offset + self.size).max(initial=0))

    def highest(self) -> int:
        """Return the first buffer that reaches the height."""
        return int(np.argmax(self.offset + self.size))

    def packing(self, bound: int, method: str) -> Packing:
        """Return the placement as it is now."""
        return Packing(tuple(int(offset) for offset in self.offset), self.height(), bound, method)
