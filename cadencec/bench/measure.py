"""The one loop that measures: a session is opened, pushed to and closed, and only pushes are timed.

    open | push  push  push ... | close          outputs are looked at when the session is over

A push begins with inputs on the host and ends with outputs on the host, on both sides.
"""

import gc
import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from cadencec.bench.rows import Array, Row


class Loop(Protocol):
    """One side of a comparison: it has one session at a time."""

    def facts(self) -> dict[str, Any]:
        """Return what it is and where it runs, for the report."""

    def prepare(self, push: Row) -> Any:
        """Return a push as `push` takes it; none of this is timed."""

    def open(self, seed: int) -> None:
        """Open a session."""

    def push(self, prepared: Any) -> Any:
        """Push, and return the outputs on the host."""

    def arrays(self, outputs: Any) -> list[list[Array]]:
        """Return outputs as bytes, event by event."""

    def close(self) -> None:
        """End the session."""

    def memory(self) -> dict[str, int | None]:
        """Return what was taken so far, in bytes."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One session: seconds to open it and of each push, what came out of each push, event by event."""

    open_s: float
    times_s: tuple[float, ...]
    outputs: tuple[list[list[Array]], ...]

    @property
    def digest(self) -> str:
        """The sha256 of all bits that came out."""
        found = hashlib.sha256()
        for made in self.outputs:
            for event in made:
                for array in event:
                    found.update(f"{array.name} {array.sizes};".encode())
                    found.update(array.data)
        return found.hexdigest()

    def rows(self) -> Iterator[Row]:
        """Yield the outputs as rows, each with the number of its push."""
        for number, made in enumerate(self.outputs):
            yield from (Row({"push": number}, tuple(event)) for event in made)


def run_session(loop: Loop, pushes: Sequence[Any], seed: int, clock: Callable[[], float] = time.perf_counter) -> Ran:
    """Run a whole session of prepared pushes."""
    times_s, outputs = [], []
    with frozen():
        before = clock()
        loop.open(seed)
        open_s = clock() - before
        try:
            for prepared in pushes:
                before = clock()
                made = loop.push(prepared)
                times_s.append(clock() - before)
                outputs.append(made)
        finally:
            loop.close()
    return Ran(open_s, tuple(times_s), tuple(map(loop.arrays, outputs)))


def first_output(loop: Loop, pushes: Sequence[Row], seed: int, clock: Callable[[], float]) -> float:
    """Push from the start until something comes out; return the time at which it is on the host."""
    loop.open(seed)
    try:
        for push in pushes:
            made = loop.push(loop.prepare(push))
            now = clock()
            if any(loop.arrays(made)):
                return now
        return clock()
    finally:
        loop.close()


@contextmanager
def frozen() -> Iterator[None]:
    """Run without looking for garbage among what was there before, as a server does: on all sides alike."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def processor() -> str:
    """Return what the system calls its processor, and how many cores this process may use."""
    found = platform.machine()
    with suppress(OSError, StopIteration), open("/proc/cpuinfo") as file:
        found = next(line for line in file if line.startswith("model name")).partition(":")[2].strip()
    return f"{found}, {len(os.sched_getaffinity(0))} cores"


def host_peak_bytes() -> int | None:
    """Return the most memory of the host that this process had at once; None where the system does not tell."""
    try:
        with open("/proc/self/status") as file:
            (line,) = (line for line in file if line.startswith("VmHWM:"))
    except (OSError, ValueError):
        return None
    return int(line.split()[1]) * 1024
