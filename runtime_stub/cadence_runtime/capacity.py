"""How many sessions a plan carries on a device, by arithmetic: what fits in memory, and what keeps the cadence.

    bytes    each session beyond the first of its lane needs a slab:      free bytes // bytes of a slab,
             and each lane that is not there yet its own part of the arena, and its executables
    time     every session brings one push a cadence, the slowest there is, behind a switch:
             lanes * floor(share * (cadence - ahead) / slowest push)

The time rule is exact for one lane that takes pushes in the order of their deadlines: all sessions have the same
period, so when a push comes, at most one of each other session is before it, and all of them end within the period
(Liu and Layland 1973; with equal periods it costs nothing that a push is not interrupted). A session stays on its lane.
"""

from fractions import Fraction

from cadence_runtime.errors import SessionError, UsageError
from cadence_runtime.frozen import frozen


@frozen
class Capacity:
    """What a plan and a device come to. `slowest_s` is 0 where no time is known; `ahead_s` is the part of each cadence
    that something else takes, such as a language model on the same device, and `share` how much of the rest may be
    used: the remainder is for what was not measured. `lanes_bytes` of what is free are for lanes that are to come."""

    slab_bytes: int
    free_bytes: int
    slowest_s: float
    cadence_s: Fraction | None
    ahead_s: float = 0.0
    share: float = 0.8
    lanes: int = 1
    lanes_bytes: int = 0

    def __post_init__(self) -> None:
        if not (0 < self.share <= 1 and self.ahead_s >= 0):
            raise UsageError(
                "CAD9701",
                "a capacity of no use",
                expected="a share above 0 and up to 1, and at least 0 seconds ahead",
                got=f"a share of {self.share:g}, {self.ahead_s:g} seconds ahead",
            )

    @property
    def by_bytes(self) -> int | None:
        """How many sessions fit in memory; None where they need none."""
        if not self.slab_bytes:
            return None
        fit = (self.free_bytes - self.lanes_bytes) // self.slab_bytes
        return fit if fit > self.lanes else self.lanes  # those that are alone on their lanes need none

    @property
    def by_time(self) -> int | None:
        """How many sessions keep the cadence; None where there is no cadence or no time."""
        if self.cadence_s is None or not self.slowest_s:
            return None
        room_s = max(0.0, float(self.cadence_s) - self.ahead_s)
        return self.lanes * int(self.share * room_s / self.slowest_s)

    @property
    def sessions(self) -> int | None:
        """How many sessions the plan carries; None where nothing bounds them."""
        return min((bound for bound in (self.by_bytes, self.by_time) if bound is not None), default=None)

    def figures(self) -> str:
        """Return the arithmetic as one line."""
        parts = []
        if self.by_bytes is not None:
            lanes = f" less {self.lanes_bytes} for more lanes" if self.lanes_bytes else ""
            parts.append(f"{self.by_bytes} by memory ({self.slab_bytes} bytes each, {self.free_bytes} free{lanes})")
        if self.by_time is not None:
            ahead = f" less {self.ahead_s * 1000:g} ms ahead" if self.ahead_s else ""
            parts.append(
                f"{self.by_time} by time (pushes of {self.slowest_s * 1000:.3g} ms in {self.share:g} of "
                f"{_milliseconds(self.cadence_s)}{ahead}, {_lanes(self.lanes)})"
            )
        return ", ".join(parts) or "any number"

    def check(self, open_sessions: int) -> None:
        """Raise SessionError CAD7060 where one more session than are open is too many."""
        if self.sessions is not None and open_sessions >= self.sessions:
            raise SessionError(
                "CAD7060",
                "the plan carries no more sessions here",
                expected=f"at most {self.sessions}: {self.figures()}",
                got=f"{open_sessions} open",
                hint="close one, or open it with `overcommit`: then the newest sessions may be late",
            )


def _milliseconds(seconds: Fraction | None) -> str:
    return f"{float(seconds or 0) * 1000:g} ms"


def _lanes(count: int) -> str:
    return "one lane" if count == 1 else f"{count} lanes"
