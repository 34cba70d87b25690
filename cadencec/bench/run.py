"""One run in real time: N sessions, each bringing a unit a cadence, and when each unit was done.

    |-- ahead --|-- room --|            a session's cadence: something else has it first, then the unit comes
    0           due        deadline

Lateness is from the deadline to the end of the unit, negative where it was early.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from cadence_runtime import LoadedPlan, Times
from cadence_runtime.live import Executor, LiveSession
from cadencec.bench.measure import frozen
from cadencec.bench.stock import StockModel, StockTalker
from cadencec.bench.talk import Talks, Unit

SWITCH_S = 0.0005
"""How long a thread may keep Python's lock while others wait, as the server sets it."""

GIVE_UP = 10
"""A run that is so many cadences late is not going to recover."""

LEAD_S = 0.05
"""From the last session's opening to the first unit."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is run: cadence and the part of it that something else takes, seconds of talk, lanes of the replay."""

    cadence_s: float
    ahead_s: float
    seconds: float
    lanes: int | None
    times: Times | None = None

    @property
    def units(self) -> int:
        """Units of each session."""
        return max(1, int(self.seconds / self.cadence_s))


@dataclass(frozen=True, slots=True)
class Ran:
    """Lateness of every unit that was done, in seconds; `units` were to be done. `busy` is the share of one core that
    the process took."""

    sessions: int
    units: int
    lateness_s: tuple[float, ...]
    busy: float

    @property
    def late(self) -> int:
        """Units that were late, those that were given up among them."""
        return sum(each > 0 for each in self.lateness_s) + self.units - len(self.lateness_s)

    def percentile(self, share: float) -> float:
        """Return the lateness that this share of the units does not exceed."""
        ordered = sorted(self.lateness_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def run_stock(
    model: StockModel,
    talks: Talks,
    sessions: int,
    conditions: Conditions,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Ran:
    """Run the stock loop: one thread that does whatever unit came first, and sleeps when there is none."""
    talkers = [StockTalker(model, who) for who in range(sessions)]
    lateness_s: list[float] = []
    dues = sorted((due for who in range(sessions) for due in dues_of(talks, who, conditions)), key=lambda due: due[:2])
    with frozen():
        begun, cpu_s = clock() + LEAD_S, time.process_time()
        for due_s, who, unit in dues:
            if (wait_s := begun + due_s - clock()) > 0:
                sleep(wait_s)
            talkers[who].push(unit)
            lateness_s.append(clock() - begun - due_s - conditions.cadence_s + conditions.ahead_s)
            if lateness_s[-1] > GIVE_UP * conditions.cadence_s:
                break
        return Ran(sessions, len(dues), tuple(lateness_s), _busy(cpu_s, clock() - begun))


def run_replay(plan: LoadedPlan, talks: Talks, sessions: int, conditions: Conditions) -> Ran:
    """Run the sessions on an executor over lanes of their own, the plan's memory shared."""
    kept = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        return asyncio.run(_replay(plan, talks, sessions, conditions))
    finally:
        sys.setswitchinterval(kept)


async def _replay(plan: LoadedPlan, talks: Talks, sessions: int, conditions: Conditions) -> Ran:
    lateness_s: list[float] = []
    async with Executor(plan.lane(), lanes=conditions.lanes, times=conditions.times) as executor:
        executor.rehearse()
        opened = [await executor.session(seed=who) for who in range(sessions)]
        dues = [list(dues_of(talks, who, conditions)) for who in range(sessions)]
        pairs = zip(opened, dues, strict=True)
        with frozen():
            begun, cpu_s = time.monotonic() + LEAD_S, time.process_time()
            await asyncio.gather(*(_stream(session, own, begun, conditions, lateness_s) for session, own in pairs))
        return Ran(sessions, sum(map(len, dues)), tuple(lateness_s), _busy(cpu_s, time.monotonic() - begun))


async def _stream(
    session: LiveSession,
    dues: "Iterable[Due]",
    begun: float,
    conditions: Conditions,
    lateness_s: list[float],
) -> None:
    """Bring the units of one session, until one is so late that the rest is given up."""
    for due_s, _, unit in dues:
        deadline_s = begun + due_s + conditions.cadence_s - conditions.ahead_s
        await asyncio.sleep(begun + due_s - time.monotonic())
        left_s = max(deadline_s - time.monotonic(), 1e-9)
        await session.push(unit.event, deadline_s=left_s, **unit.inputs, **unit.choices)
        lateness_s.append(time.monotonic() - deadline_s)
        if lateness_s[-1] > GIVE_UP * conditions.cadence_s:
            return


Due = tuple[float, int, Unit]


def dues_of(talks: Talks, who: int, conditions: Conditions) -> Iterator[Due]:
    """Yield the units of a session with the seconds from the start at which they come."""
    phase_s = talks.phase(who) * conditions.cadence_s
    for number, unit in enumerate(islice(talks.talk(who), conditions.units)):
        yield number * conditions.cadence_s + phase_s + conditions.ahead_s, who, unit


def _busy(cpu_s: float, wall_s: float) -> float:
    return (time.process_time() - cpu_s) / wall_s if wall_s > 0 else 0.0
