"""Executables within a budget of device memory: those that can run next are built ahead, by a thread of their own.

    the thread that pushes           ready(captures) | launch, launch ... | stands(node)       ready(captures) | ...
    the builder                                                             destroy, build, upload, build, ...

Only the builder builds and destroys. It begins with what a push waits for; then comes what the open sessions can run
next, the session that pushed longest ago first, as far as the budget holds it. Where there is no room, executables go
that are not among these, the one that was unused for longest first, and only once the device is done with them.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from cadence_runtime.cuda.driver import Handle
from cadence_runtime.cuda.executables import Maker, at
from cadence_runtime.cuda.needs import Graphs, Needs
from cadence_runtime.errors import CadenceError, DeviceError


class Task(NamedTuple):
    """What the builder does next: destroy some executables, then build one."""

    destroy: Graphs
    build: int


def next_task(
    made: Iterable[int], pinned: Graphs, wanted: Iterable[int], sizes: Sequence[int], budget_bytes: int
) -> Task | None:
    """Return what to do so that all that is pinned is there, and of what is wanted, in its order, as much as the budget
    holds beside it; None where that is so. `made` is in the order of use, the longest unused first."""
    kept, kept_bytes = dict.fromkeys(pinned), sum(sizes[graph] for graph in pinned)
    for graph in wanted:
        if graph not in kept and kept_bytes + sizes[graph] <= budget_bytes:
            kept[graph] = None
            kept_bytes += sizes[graph]
    there = dict.fromkeys(made)
    missing = next((graph for graph in kept if graph not in there), None)
    if missing is None:
        return None
    room_bytes, gone = budget_bytes - sum(sizes[graph] for graph in there), []
    for graph in there:
        if room_bytes >= sizes[missing]:
            break
        if graph not in kept:
            gone.append(graph)
            room_bytes += sizes[graph]
    return Task(tuple(gone), missing)


class Budgeted:
    """See `cadence_runtime.residency.Residency`, and `Executables` for the rest."""

    def __init__(
        self, maker: Maker, needs: Needs, budget_bytes: int, stream: Handle, finish: Callable[[], None]
    ) -> None:
        """Uploads go over a stream of the builder's own; `finish` waits for all launches. Raises DeviceError CAD8007
        where the system has no thread to give."""
        self._maker, self._needs, self._budget_bytes = maker, needs, budget_bytes
        self._stream, self._finish = stream, finish
        self._change = threading.Condition()
        self._made: dict[int, Handle] = {}  # by graph; the one that was used last stands last
        self._leaving: list[Handle] = []  # taken out, and not destroyed yet
        self._pinned: Graphs = ()
        self._at: dict[int, int] = {}  # node by ticket; the session that pushed last stands last
        self._wanted: Graphs | None = None  # None: to be worked out
        self._filling = False
        self._building: int | None = None
        self._failure: CadenceError | None = None
        self._closed = False
        self._counts = dict.fromkeys(("built", "destroyed", "misses", "waits"), 0)
        self._thread = threading.Thread(target=self._work, name="cadence-builder", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise _failed("the builder of executables", error) from error

    def ready(self, captures: Sequence[int]) -> None:
        graphs = self._needs.of(captures)
        with self._change:
            self._raise_failure()
            missing = [graph for graph in graphs if graph not in self._made]
            self._pinned = graphs
            if missing:
                self._counts["misses"] += len(missing)
                self._counts["waits"] += 1
                self._change.notify_all()
                self._change.wait_for(lambda: self._failure or all(graph in self._made for graph in graphs))
                self._raise_failure()
            for graph in graphs:
                self._made[graph] = self._made.pop(graph)

    def stands(self, ticket: int, node: int | None) -> None:
        with self._change:
            self._pinned, self._wanted = (), None
            self._at.pop(ticket, None)
            if node is not None:
                self._at[ticket] = node
            self._change.notify_all()

    def settle(self) -> None:
        with self._change:
            self._change.wait_for(lambda: self._failure or (self._building is None and self._next() is None))
            self._raise_failure()

    def figures(self) -> Mapping[str, int]:
        with self._change:
            sizes = {"budget_bytes": self._budget_bytes, "resident_bytes": self._needs.bytes(self._made)}
            return {**sizes, "executables": len(self._made), **self._counts}

    @property
    def owed_bytes(self) -> int:
        """What executables may take beside those that are there."""
        with self._change:
            return self._budget_bytes - self._needs.bytes(self._made)

    def use(self, capture: int) -> Handle:
        """Return the executable of a capture's graph; where it was not asked to be ready, it is now."""
        (graph,) = self._needs.of((capture,))
        with self._change:
            if graph in self._pinned:
                return self._made[graph]
        self.ready((capture,))
        return self._made[graph]

    def warm(self) -> None:
        """Fill the budget, with what a session can run first before all else."""
        with self._change:
            self._filling, self._wanted = True, None
            self._change.notify_all()
        self.settle()
        with self._change:
            self._filling, self._wanted = False, None

    def close(self) -> None:
        """End the builder and destroy all executables; nothing may run any more."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        self._thread.join()
        self._leaving += self._made.values()
        self._made.clear()
        self._destroy()

    def _raise_failure(self) -> None:
        """Tell of what the builder met, once; then it goes on."""
        failure, self._failure = self._failure, None
        if failure is not None:
            self._pinned = ()
            self._change.notify_all()
            raise failure

    def _work(self) -> None:
        while (task := self._take()) is not None:
            made, failure = self._do(task)
            with self._change:
                self._building, self._failure = None, failure
                if failure is None:
                    self._made[task.build] = made
                    self._counts["built"] += 1
                self._change.notify_all()

    def _take(self) -> Task | None:
        """Wait for something to do, and take out what is to be destroyed; None at the end."""
        with self._change:
            self._change.wait_for(lambda: self._closed or (self._failure is None and self._next() is not None))
            task = None if self._closed else self._next()
            if task is not None:
                self._building = task.build
                self._leaving += (self._made.pop(graph) for graph in task.destroy)
                self._counts["destroyed"] += len(task.destroy)
            return task

    def _do(self, task: Task) -> tuple[Handle, CadenceError | None]:
        """Return the executable that was built, or what went wrong."""
        capture = self._needs.captures[task.build]
        try:
            self._maker.driver.use()
            if self._leaving:
                self._finish()
                self._destroy()
            return self._uploaded(capture), None
        except CadenceError as error:
            return None, error
        except BaseException as error:
            return None, _failed(self._maker.name(capture), error)

    def _uploaded(self, capture: int) -> Handle:
        made = self._maker.make(capture, self._stream)
        try:
            with at(self._maker.name(capture)):
                self._maker.driver.synchronize(self._stream)
        except BaseException:
            self._leaving.append(made)
            raise
        return made

    def _destroy(self) -> None:
        while self._leaving:
            self._maker.driver.destroy(self._leaving[-1])
            self._leaving.pop()

    def _next(self) -> Task | None:
        if self._wanted is None:
            self._wanted = self._want()
        return next_task(self._made, self._pinned, self._wanted, self._needs.sizes, self._budget_bytes)

    def _want(self) -> Graphs:
        """Return what can run next, the first push of each session's node before the second of any. Where no session is
        open, one can be opened."""
        needs = self._needs
        pushes = zip_longest(*map(needs.next, dict.fromkeys(self._at.values())), fillvalue=())
        wanted = dict.fromkeys(chain.from_iterable(chain.from_iterable(pushes)))
        if not self._at:
            wanted = dict.fromkeys((*needs.opening, *chain.from_iterable(needs.next(0))))
        return (*wanted, *needs.nearest()) if self._filling else tuple(wanted)


def _failed(where: str, error: BaseException) -> DeviceError:
    return DeviceError(
        "CAD8007",
        "an executable could not be built ahead",
        expected="a builder that works",
        got=f"{type(error).__name__}: {error}",
        at=where,
    )
