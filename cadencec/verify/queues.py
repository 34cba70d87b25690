"""The rows that the host holds back, kept once more for the stock side of a comparison.

Written apart from the runtime's own queues on purpose: a fault in one of them shows as a difference.
"""

from collections.abc import Mapping

import torch

from cadence_runtime.host.program import Configuration, Event, Program, Queue
from cadencec.trace.operands import DTYPES
from cadencec.trace.state import Value


class Queues:
    """The rows of every queue of one session, oldest first."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.counters = {counter.name: i for i, counter in enumerate(program.counters)}
        self.rows: dict[str, torch.Tensor] = {}
        self.restart()

    def restart(self) -> None:
        """Return every queue to its start rows."""
        self.rows = {queue.name: _start_rows(queue) for queue in self.program.queues}

    def arrive(self, event: Event, inputs: Mapping[str, Value]) -> None:
        """Append what an external event brings."""
        for queue in self.program.queues:
            value = inputs.get(queue.name)
            if not event.internal and isinstance(value, torch.Tensor):
                held = self.rows[queue.name]
                self.rows[queue.name] = torch.cat([held, value], queue.axis) if held.numel() else value

    def front(self, name: str, sizes: tuple[int, ...]) -> torch.Tensor | None:
        """Return the rows that a stage takes, which stay; None for a name that is no queue."""
        for queue in self.program.queues:
            if queue.name == name:
                return self.rows[name].narrow(queue.axis, 0, sizes[queue.axis]).reshape(sizes)
        return None

    def settle(self, configuration: Configuration) -> None:
        """Let rows leave at the front until each queue has as many as its counter says."""
        for queue in self.program.queues:
            count, held = configuration.counters[self.counters[queue.counter]], self.rows[queue.name]
            surplus = held.shape[queue.axis] - count
            self.rows[queue.name] = held.narrow(queue.axis, surplus, count)


def _start_rows(queue: Queue) -> torch.Tensor:
    sizes = [1] * queue.axis + [len(queue.start)]
    return torch.tensor(queue.start, dtype=DTYPES[queue.dtype]).reshape(sizes)
