"""The states of a plan's sessions: the active one stands in the arena, the others in slabs of their own.

    one session       active: a                         no slab
    open b            active: b    slabs: a, b          both are made now, so that no push allocates
    push to a         b -> its slab, a's slab -> active
    close b           active: a                         no slab

A state is known by a ticket, not by its session: nothing here keeps a session alive that its owner has dropped.
"""

from collections import deque
from itertools import count

from cadence_runtime.player import Player, Slab


class States:
    """Callers hold the plan's lock, but for `abandon`."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._slabs: dict[int, Slab | None] = {}
        self._active: int | None = None
        self._tickets = count()
        self.switches = 0
        self._abandoned: deque[int] = deque()

    def __len__(self) -> int:
        self._sweep()
        return len(self._slabs)

    @property
    def slabs(self) -> int:
        """How many slabs there are."""
        return sum(slab is not None for slab in tuple(self._slabs.values()))

    def open(self) -> int:
        """Make the active slab that of a new state, which is not made yet, and return its ticket. Raises DeviceError
        where there is no memory for a slab; then every other state is where it was."""
        self._sweep()
        ticket = next(self._tickets)
        self._slabs[ticket] = None
        try:
            if len(self._slabs) > 1:
                for each in [each for each, slab in self._slabs.items() if slab is None]:
                    self._slabs[each] = self._player.new_slab()
            self._leave()
        except BaseException:
            self.close(ticket)
            raise
        self._active = ticket
        return ticket

    def activate(self, ticket: int) -> bool:
        """Make a state the active one; return whether it was not. Whatever fails, each state is whole: in its slab or
        active."""
        if self._active == ticket:
            return False
        self._leave()
        self._player.activate(self._slabs[ticket])
        self.switches += 1
        self._active = ticket
        return True

    def close(self, ticket: int) -> None:
        """Give up a state, and the slab of the last one that is left."""
        self._drop(ticket)
        self._player.residency.stands(ticket, None)
        if len(self._slabs) == 1:
            (last,) = self._slabs
            if self._slabs[last] is not None:
                self.activate(last)
                self._player.free_slab(self._slabs[last])
                self._slabs[last] = None

    def close_all(self) -> None:
        """Give up every state."""
        for ticket in tuple(self._slabs):
            self._drop(ticket)

    def abandon(self, ticket: int) -> None:
        """Note that a session was dropped without being closed; it may be called at any moment, on any thread."""
        self._abandoned.append(ticket)

    def _sweep(self) -> None:
        while self._abandoned:
            self.close(self._abandoned.popleft())

    def _leave(self) -> None:
        """Copy the active state to its slab; then none is active."""
        if self._active is not None:
            self._player.deactivate(self._slabs[self._active])
        self._active = None

    def _drop(self, ticket: int) -> None:
        slab = self._slabs.pop(ticket, None)
        if self._active == ticket:
            self._active = None
        if slab is not None:
            self._player.free_slab(slab)
