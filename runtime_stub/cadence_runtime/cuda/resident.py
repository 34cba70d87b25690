"""A lane of a plan on the device: its part of the arena and its executables, from load to close.

    first lane      [ weights  constants | state  io  scratch  rows  library ]
    another lane    ^--- the same ----->   [ state  io  scratch  rows  library ]     and executables of its own

Everything that was taken is given back on `close`, and when any step fails; what lanes have in common goes with the
last. Executables are built when their captures first run, or before by `warm`, and stay; where a budget does not hold
all of them, `budget` says which do.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from cadence_runtime.cuda.budget import Budgeted
from cadence_runtime.cuda.build import Addresses
from cadence_runtime.cuda.common import Bytes, Common, WeightSource
from cadence_runtime.cuda.compatibility import READ_ONLY, arena_bytes, executable_bytes, lent_bytes
from cadence_runtime.cuda.driver import Driver, Handle
from cadence_runtime.cuda.executables import Executables, Maker, at
from cadence_runtime.cuda.needs import Needs
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import CudaPart, Graph, Move
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.source import located


def reside(
    driver: Driver,
    plan: Plan,
    part: CudaPart,
    weights: WeightSource,
    address: int | None = None,
    budget_bytes: int | None = None,
) -> "Resident":
    """Return the first lane of a plan. `address` is where the arena should stand, if not where it was recorded;
    `budget_bytes` is what a lane's executables may take on the device, as predicted. Raises UsageError CAD9704 for one
    that does not hold a push."""
    needs = None
    if budget_bytes is not None and budget_bytes < executable_bytes(part):
        needs = Needs(plan, part)
        needs.check(budget_bytes)
    return Resident(Common(driver, plan, part, weights, address), needs, budget_bytes, is_first=True)


class Resident:
    """See above. `base` is what offsets of the lane's own sections are relative to."""

    def __init__(self, common: Common, needs: Needs | None, budget_bytes: int | None, *, is_first: bool) -> None:
        self.common, self.driver, self.plan, self.part = common, common.driver, common.plan, common.part
        self._needs, self._budget_bytes = needs, budget_bytes
        self._unfinished: dict[int, None] = {}  # captures that were launched since the device was last heard of
        self._is_last = False
        with ExitStack() as undo:
            undo.callback(self._leave)
            self.stream = common.stream if is_first else self._new_stream(undo)
            self._addresses = Addresses(common.base, common.base, 0) if is_first else self._place(undo)
            self.base = self._addresses.own
            maker = Maker(self.driver, self.part, common.functions, self._addresses, self._capture_name)
            self.executables = self._executables(undo, maker)
            undo.callback(self.executables.close)
            common.take(self._owed)
            self._undo = undo.pop_all()

    def lane(self) -> "Resident":
        """Return one more lane. Raises DeviceError CAD8006 where there is no room for it, or cannot be one."""
        self._check_lane()
        return Resident(self.common, self._needs, self._budget_bytes, is_first=False)

    @property
    def lane_bytes(self) -> int:
        """What one more lane takes on the device, with all the executables that it may have, as predicted."""
        return self._own_bytes + self._limit_bytes

    @property
    def executables_bytes(self) -> int:
        """What the executables that are built take on the device, as predicted."""
        return self._limit_bytes - self.executables.owed_bytes

    def close(self) -> bool:
        """Give back everything; return whether it was the last lane. The object is of no use afterwards."""
        self._undo.close()
        return self._is_last

    def warm(self) -> None:
        """Build and upload executables ahead of their first launch, as far as the budget reaches."""
        self.executables.warm()
        self.synchronize()

    def launch(self, capture: int) -> None:
        """Launch a capture on the plan's stream, after everything launched before, with the moves around it."""
        executable, launch = self.executables.use(capture), self.part.launch(capture)
        self._unfinished[capture] = None
        with self._blaming():
            self._move(launch.before)
            self.driver.launch(executable, self.stream)
            self._move(launch.after)

    def synchronize(self) -> None:
        """Wait for everything that was launched."""
        with self._blaming():
            self.driver.synchronize(self.stream)
        self._unfinished.clear()

    def graph(self, capture: int) -> Graph:
        """Return the graph of a capture."""
        return self.part.graph_of(capture)

    def write(self, offset: int, data: Bytes) -> None:
        """Copy contiguous host bytes to an arena offset, behind the work that was launched before."""
        self.driver.upload(self.base + offset, int(data.ctypes.data), int(data.nbytes), self.stream)

    def read(self, offset: int, size: int) -> Bytes:
        """Copy bytes from an arena offset to a new host array, when all work launched before is done."""
        host = np.empty(size, np.uint8)
        with self._blaming():
            self.driver.download(int(host.ctypes.data), self.base + offset, size, self.stream)
        self._unfinished.clear()
        return host

    @property
    def _own_bytes(self) -> int:
        return max(1, arena_bytes(self.plan) - lent_bytes(self.plan))

    @property
    def _limit_bytes(self) -> int:
        return executable_bytes(self.part) if self._needs is None else self._budget_bytes or 0

    def _check_lane(self) -> None:
        written = [s for s in self.part.snapshots if s.blob is None]
        for variable in self.part.globals:
            if any(s.offset <= offset < s.offset + s.size_bytes for _, offset in variable.pointers for s in written):
                raise DeviceError(
                    "CAD8006",
                    "the plan has one lane",
                    expected="device variables that lead to tables alone",
                    got=f"`{variable.name}`, which leads to memory that kernels write",
                    hint="open more sessions on the lane that there is",
                )
        free = self.driver.memory()[0] - self.common.owed_bytes
        if self.lane_bytes > free:
            raise DeviceError(
                "CAD8006",
                "the device has no room for one more lane",
                expected=f"{self.lane_bytes} bytes: {self._own_bytes} of arena and {self._limit_bytes} of executables",
                got=f"{max(0, free)} bytes free, besides what the lanes that there are may still take",
                hint="open more sessions on the lanes that there are, or give `load` a budget",
            )

    def _leave(self) -> None:
        self._is_last = self.common.give_back(self._owed)

    def _owed(self) -> int:
        return self.executables.owed_bytes

    def _new_stream(self, undo: ExitStack) -> Handle:
        stream = self.driver.new_stream()
        undo.callback(self.driver.destroy_stream, stream)
        return stream

    def _place(self, undo: ExitStack) -> Addresses:
        """Take memory for the lane's own sections, and fill it with what they start with."""
        lent = lent_bytes(self.plan)
        with at(f"the {self._own_bytes} bytes of a lane"):
            address = self.driver.reserve(self._own_bytes, 0)
        undo.callback(self.driver.release, address, self._own_bytes)
        own = address - lent
        for section in self.plan.sections:
            if section.name in READ_ONLY and section.offset >= lent and section.size_bytes:
                self.driver.copy(
                    own + section.offset, self.common.base + section.offset, section.size_bytes, self.stream
                )
        for content in self.common.snapshots():
            self.common.upload(content, own, self.stream)
        self.common.clear(own, self.stream)
        return Addresses(own, self.common.base, lent)

    def _executables(self, undo: ExitStack, maker: Maker) -> Executables | Budgeted:
        if self._needs is None:
            return Executables(maker, len(self.plan.captures), self.stream)
        return Budgeted(maker, self._needs, self._limit_bytes, self._new_stream(undo), self._finish)

    def _finish(self) -> None:
        """Wait for all launches, on a thread that launches nothing: what was heard of the device stays as it is."""
        with self._blaming():
            self.driver.synchronize(self.stream)

    def _move(self, moves: Sequence[Move]) -> None:
        for move in moves:
            destination, source = self._addresses.of(move.destination), self._addresses.of(move.source)
            self.driver.copy(destination, source, move.size_bytes, self.stream)

    def _capture_name(self, capture: int) -> str:
        return f"capture {capture} of stage `{self.plan.captures[capture].key.stage}`"

    @contextmanager
    def _blaming(self) -> Iterator[None]:
        """Say of a failure which captures may have caused it: the device reports late."""
        try:
            yield
        except DeviceError as error:
            ran = ", ".join(map(self._capture_name, tuple(self._unfinished)))
            raise located(error, f"after {ran}") from None if ran else error
