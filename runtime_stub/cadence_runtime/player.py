"""What a session needs of a device: the one interface that both players have.

A player holds one plan on one device: weights, constants, the active state slab, the io section, scratch and everything
that runs captures. Whose state the active slab holds is the session layer's business.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from cadence_runtime.format.plan import Plan, TensorForm
from cadence_runtime.residency import Residency

Array = Any
"""A tensor on the host or the device, of the player's own kind: torch for `cpu`, numpy for `cuda`."""

Slab = Any
"""A copy of the state section, held for a session that is not active."""

GeneratorState = Any
"""The state of the random generator of a session."""


class Player(Protocol):
    """Captures are named by their index in the plan, inputs and outputs by their position in the capture's stage."""

    plan: Plan
    residency: Residency

    def accept(self, value: object, dtype: str) -> Array:
        """Return a user's array as the player's own kind, without copying; raise TypeError when it is no array and
        ValueError, with its dtype as the message, when it has another dtype."""

    def shape(self, array: Array) -> tuple[int, ...]:
        """Return the sizes of an array."""

    def rows(self, values: tuple[int, ...], dtype: str, axis: int, rank: int) -> Array:
        """Return integers laid out along an axis, every other size being 1."""

    def join(self, one: Array, other: Array, axis: int) -> Array:
        """Return two arrays one behind the other."""

    def take(self, array: Array, axis: int, lower: int, upper: int) -> Array:
        """Return the part of an array within a range of an axis."""

    def new_slab(self) -> Slab:
        """Return a slab for one session."""

    def free_slab(self, slab: Slab) -> None:
        """Give back a slab that no session uses any more."""

    def activate(self, slab: Slab) -> None:
        """Copy a slab into the active state."""

    def deactivate(self, slab: Slab) -> None:
        """Copy the active state into a slab."""

    def seeded(self, seed: int) -> GeneratorState:
        """Return the generator's state after seeding."""

    def write_input(self, capture: int, position: int, array: Array) -> None:
        """Copy an array into an input of a capture."""

    def run(self, capture: int, generator: GeneratorState) -> GeneratorState:
        """Run a capture on the active state; return the generator's state behind it."""

    def output(self, capture: int, position: int) -> Array:
        """Return an output of the capture that ran last, valid until another runs."""

    def copy(self, array: Array) -> Array:
        """Return an array of its own."""

    def lend(self, array: Array, lent: Array | None) -> Array:
        """Return an output that stays as it is until it is lent again; `lent` is what was returned the last time, whose
        memory may be used again."""

    def leaf(self, index: int, form: TensorForm) -> Array:
        """Return a copy of a leaf of the active state."""

    def use(self) -> None:
        """Make the device current on the calling thread; once for each thread is enough."""

    def lane(self) -> "Player":
        """Return a player over the same weights and constants, with state, io and scratch of its own. Raises
        DeviceError where there is no memory, or the plan has but one lane."""

    def lane_bytes(self) -> int:
        """Return the memory that one more lane takes."""

    def free_bytes(self) -> int:
        """Return the memory that is free for slabs now, and that nothing loaded will take."""

    def report(self) -> Mapping[str, int]:
        """Return what the lane takes, in bytes by name; what it shares with an earlier one counts as nothing."""

    def close(self) -> None:
        """Give back everything."""
