"""Demand: the largest size that each region is ever left with, and no byte more."""

import math

from cadence_runtime.format.tape import ITEM_BYTES
from cadence_runtime.host.program import ABSENT, Region
from cadencec.timeline.timeline import Demand


def region_bytes(region: Region, length: int) -> int:
    """Return the bytes of all leaves of a region at a length in ticks, every index of an indexed one included."""
    if length == ABSENT:
        return 0
    elements = math.prod(length if size is None else size for size in region.shape)
    return len(region.leaves) * elements * ITEM_BYTES[region.dtype]


def demand(regions: tuple[Region, ...], peaks: list[int]) -> tuple[Demand, ...]:
    """Return the demand of each region from the largest length that a search has seen."""
    return tuple(
        Demand(region.name, max(peak, 0), region_bytes(region, peak))
        for region, peak in zip(regions, peaks, strict=True)
    )
