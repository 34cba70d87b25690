"""Sets of bytes of a storage, exact for strided views: what a step has written, and whether that covers what it reads.

a (2, 3) window, row stride 5:   [0 1 2] 3 4 [5 6 7] 8 9      two runs: 0..3 and 5..8 (times the item's bytes)
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cadence_runtime.format.tape import ITEM_BYTES, View

MAX_RUNS = 1 << 22
"""A view of more runs than this is not taken apart: as a read it is its whole span, as a write it is nothing."""

Runs = NDArray[np.int64]
"""Half-open byte ranges, one a row."""


class ByteSet:
    """A set of bytes as sorted, disjoint, non-touching runs."""

    def __init__(self) -> None:
        self._runs: Runs = np.empty((0, 2), np.int64)

    def add(self, view: View) -> None:
        """Add the bytes that a write of the view touches."""
        runs = runs_of(view)
        if runs is not None:
            self._runs = merge(np.concatenate([self._runs, runs]))

    def covers(self, view: View) -> bool:
        """Return whether every byte that a read of the view touches is in the set."""
        runs = runs_of(view)
        runs = np.array([view.span()], np.int64) if runs is None else runs
        runs = runs[runs[:, 0] < runs[:, 1]]
        at = np.searchsorted(self._runs[:, 0], runs[:, 0], side="right") - 1
        inside = at >= 0
        return bool(np.all(inside) and np.all(runs[:, 1] <= self._runs[at, 1]))


def runs_of(view: View) -> Runs | None:
    """Return the byte ranges of a view, or None when there are more than `MAX_RUNS`."""
    item = ITEM_BYTES[view.dtype]
    if 0 in view.sizes:
        return np.empty((0, 2), np.int64)
    block, outer = item, list[tuple[int, int]]()
    for stride, size in sorted(zip(view.strides, view.sizes, strict=True)):
        if size == 1 or stride == 0:
            continue
        if not outer and stride * item == block:
            block *= size
        else:
            outer.append((stride * item, size))
    if _product(size for _, size in outer) > MAX_RUNS:
        return None
    starts = np.array([view.offset * item], np.int64)
    for stride, size in outer:
        starts = (starts[:, None] + stride * np.arange(size, dtype=np.int64)).reshape(-1)
    return merge(np.stack([starts, starts + block], axis=1))


def merge(runs: Runs) -> Runs:
    """Return the same bytes as sorted runs that neither overlap nor touch."""
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    if len(runs) < 2:
        return runs
    ends = np.maximum.accumulate(runs[:, 1])
    first = np.concatenate([[True], runs[1:, 0] > ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([runs[first, 0], ends[last]], axis=1)


def _product(sizes: Iterable[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total
