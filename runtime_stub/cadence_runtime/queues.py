"""The rows that the host holds back for later stages, one queue each, oldest first.

push("unit", token=<1 x 25>)    held 3 -> 28        a stage takes 28 from the front, and they stay
                                                    counter 28 -> 3: 25 rows leave at the front
"""

from collections.abc import Mapping

from cadence_runtime.host.program import Program
from cadence_runtime.player import Array, Player


class Queues:
    """The queues of one session."""

    def __init__(self, program: Program, player: Player) -> None:
        self._queues = {queue.name: queue for queue in program.queues}
        self._player = player
        self._rows: dict[str, Array] = {}
        self.restart()

    def restart(self) -> None:
        """Return every queue to its start rows."""
        for name, queue in self._queues.items():
            self._rows[name] = self._player.rows(queue.start, queue.dtype, queue.axis, queue.axis + 1)

    def arrive(self, name: str, rows: Array) -> None:
        """Append rows, as a copy. An empty queue does not know its other sizes, so it takes those of what comes."""
        axis = self._queues[name].axis
        held = self._rows[name] if self._held(name) else self._player.take(rows, axis, 0, 0)
        self._rows[name] = self._player.join(held, rows, axis)

    def front(self, name: str, count: int) -> Array:
        """Return the oldest rows, which stay."""
        return self._player.take(self._rows[name], self._queues[name].axis, 0, count)

    def settle(self, counts: Mapping[str, int]) -> None:
        """Let rows leave at the front of each queue until it has as many as are told."""
        for name, count in counts.items():
            held = self._held(name)
            if held != count:
                self._rows[name] = self._player.take(self._rows[name], self._queues[name].axis, held - count, held)

    def _held(self, name: str) -> int:
        return self._player.shape(self._rows[name])[self._queues[name].axis]
