"""Which of a plan's captures are ready to run, as a session sees it: it says what it runs and where it stands.

    ready(captures)  ->  run, run, run  ->  stands(ticket, node)  -> ... what can come next is brought in meanwhile

A player whose captures are all there, or are made ready when they first run, needs none of this: `AllStay`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Residency(Protocol):
    """Calls come one at a time, under the plan's lock."""

    def ready(self, captures: Sequence[int]) -> None:
        """Have what one push runs ready, all of it together, until `stands` is called. Raises DeviceError, and then
        nothing has happened, where something could not be made ready since the last call."""

    def stands(self, ticket: int, node: int | None) -> None:
        """Hear that a session stands at a node of the timeline, with nothing running; None: it has ended."""

    def settle(self) -> None:
        """Wait until all that can be ready for the next pushes is. Raises as `ready` does."""

    def figures(self) -> Mapping[str, int]:
        """Return sizes in bytes and counts by name; empty where everything stays."""


class AllStay:
    """See `Residency`: nothing that is ready is ever given up."""

    def ready(self, captures: Sequence[int]) -> None:
        """There is nothing to wait for."""

    def stands(self, ticket: int, node: int | None) -> None:
        """Nothing follows from it."""

    def settle(self) -> None:
        """There is nothing to wait for."""

    def figures(self) -> Mapping[str, int]:
        return {}
