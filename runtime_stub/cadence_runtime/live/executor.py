"""The executor: sessions of one plan, pushed to from an event loop, each push by its deadline.

    async with Executor(load("silero-vad.cpu.plan"), lanes=2) as live:
        async with await live.session(seed=7) as session:
            outputs = await session.push("chunk", x=samples)        # by one cadence from now
            outputs = await session.push("chunk", x=samples, deadline_s=0.010)

Everything a device does happens on the threads of the lanes; the loop only waits. Cancelling is safe at any point: a
push that waits is taken back and has not happened, one that runs happens whole, and its outputs are dropped.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from time import monotonic
from types import TracebackType
from typing import Any, Self

from cadence_runtime.capacity import Capacity
from cadence_runtime.errors import CadenceError, DeviceError, SessionError, UsageError
from cadence_runtime.live.ends import device_failed, plan_closed, session_ended
from cadence_runtime.live.jobs import LATE, Job, Late, Outcome, Report
from cadence_runtime.live.lane import Clock, Lane
from cadence_runtime.live.setup import first_estimates, lanes_for, lanes_of, shapes_of, turn_event
from cadence_runtime.outputs import Outputs
from cadence_runtime.session import LoadedPlan, Session
from cadence_runtime.times import Times, measure

OWN_FAILURES = frozenset(["CAD8010", "CAD8011"])
"""Failures of one push that leave the device as it was."""

OPEN, SEED, CLOSE = "(open)", "(seed)", "(close)"
"""What is done to a session besides its events; none of these is a name that an event can have."""

LEARNING = 0.1
"""How much the last push of an event changes what the next one is thought to take."""


class Executor:
    """Owns the plan that it is given, and its lanes; all methods belong to one event loop.

    `lanes` is how many threads do pushes; with 0 the loop's own does, one between any two things that the loop does. By
    default that is so where the slowest push is known to take less time than handing it over and back. `capacity`
    bounds the sessions, `times` say what pushes take before any was seen. `observe` is called on the loop with a report
    of every push. `clock` is in seconds; with `threads=False` nothing runs but by `step`.
    """

    def __init__(
        self,
        plan: LoadedPlan,
        *,
        lanes: int | None = None,
        capacity: Capacity | None = None,
        times: Times | None = None,
        wedged_s: float | None = None,
        observe: Callable[[Report], None] | None = None,
        clock: Clock = monotonic,
        threads: bool = True,
    ) -> None:
        self.plan, self.capacity = plan.plan, capacity
        self.failure: DeviceError | None = None
        self.sessions: dict[int, LiveSession] = {}
        self._clock, self._observe, self._wedged_s = clock, observe, wedged_s
        self._takes_s = first_estimates(plan, times)
        self.turn = turn_event(plan)
        self._ranks = count()
        self._closed = False
        count_of_lanes = lanes_for(plan, lanes, times)
        self.is_inline = count_of_lanes == 0
        self._due = False
        self._lanes = [Lane(each, clock, self._drop_turn) for each in lanes_of(plan, max(1, count_of_lanes))]
        self._switches_before = self._switches()
        for index, lane in enumerate(self._lanes if threads and not self.is_inline else ()):
            lane.start(f"cadence-lane-{index}")

    @property
    def lanes(self) -> int:
        """How many lanes there are; one that is the loop's own thread counts."""
        return len(self._lanes)

    @property
    def switches(self) -> int:
        """How often a push found another session's state active, over all lanes."""
        return self._switches() - self._switches_before

    async def session(self, seed: int = 0, *, late: Late = "late", overcommit: bool = False) -> "LiveSession":
        """Open a session on the lane with the fewest. Raises SessionError CAD7060 beyond the capacity, unless it may
        `overcommit`, and CAD7064 for `drop-turn` where the plan has no event that drops one."""
        self._check_open()
        if late not in LATE:
            raise UsageError("CAD9702", "no such policy for late pushes", expected=", ".join(LATE), got=repr(late))
        if late == "drop-turn" and self.turn is None:
            raise SessionError(
                "CAD7064",
                "turns of this plan cannot be dropped",
                expected="an event that resets, without guard, inputs or choices",
                got="none",
                hint="use `late` or `refuse`",
            )
        if self.capacity is not None and not overcommit:
            self.capacity.check(len(self.sessions))
        lane = min(self._lanes, key=lambda lane: lane.sessions)
        session = LiveSession(self, lane, next(self._ranks), late)
        self.sessions[session.rank] = session
        lane.sessions += 1
        try:
            await self._submit(session, OPEN, partial(session.open_here, seed), self.cadence_s, late="late")
        except BaseException:
            session.close()
            raise
        return session

    @property
    def cadence_s(self) -> float:
        """The deadline of a push that names none, in seconds from its coming; without a cadence there is none."""
        return float("inf") if self.plan.program.cadence_s is None else float(self.plan.program.cadence_s)

    def bytes(self) -> dict[str, int]:
        """Return what the lanes take on the device, by section, `executables` on CUDA, and `slabs`. What lanes share
        counts once."""
        sizes: Counter[str] = Counter()
        for lane in self._lanes:
            sizes.update(lane.plan.report())
        return {**sizes, "slabs": sum(lane.plan.slab_bytes for lane in self._lanes)}

    def residency(self) -> dict[str, int]:
        """Return what budgets hold and how often pushes waited for them, over all lanes; empty where all stays. See
        `LoadedPlan.residency`."""
        found: Counter[str] = Counter()
        for lane in self._lanes:
            found.update(lane.plan.residency())
        return dict(found)

    def rehearse(self) -> Times:
        """Run every key on every lane, before the first session, so that no push is the first of its key; return what
        they take on one lane while the others are busy, which is what is expected of them from now on."""
        first, *others = [lane.plan for lane in self._lanes]
        for other in others:
            measure(other, repeats=0)
        times = measure(first, beside=others)
        self._takes_s = first_estimates(first, times)
        self._switches_before = self._switches()
        return times

    def step(self) -> bool:
        """Do one job on each lane, on this thread; return whether there was any. For an executor without threads."""
        done = [lane.step() for lane in self._lanes]
        return any(done)

    def look(self) -> None:
        """End all sessions where a push runs for longer than `wedged_s`. It is called by whoever minds the clock."""
        for lane in self._lanes if self._wedged_s is not None else ():
            running = lane.running
            if running is not None and self._clock() - running[1] > (self._wedged_s or 0.0):
                self._fail(
                    DeviceError(
                        "CAD8021",
                        f"`{running[0].event}` does not end",
                        expected=f"an end within {self._wedged_s:g} s",
                        got=f"none after {self._clock() - running[1]:.3g} s",
                        hint="its thread is left behind; load the plan again",
                    )
                )

    async def close(self) -> None:
        """End all sessions and give back everything, behind the pushes that run. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        for lane in self._lanes:
            lane.stop()
        self._refuse_waiting(plan_closed())
        self.sessions.clear()
        for lane in self._lanes:
            if self.failure is None or lane.running is None:  # else it is wedged, and its thread is left behind
                await asyncio.to_thread(lane.join)
                self._give_back(lane)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _switches(self) -> int:
        return sum(lane.plan.switches for lane in self._lanes)

    def _check_open(self) -> None:
        if self.failure is not None:
            raise device_failed(self.failure)
        if self._closed:
            raise plan_closed()

    def _submit(
        self,
        session: "LiveSession",
        event: str,
        call: Callable[[], Any],
        deadline_s: float,
        late: Late,
        shapes: str = "",
    ) -> "asyncio.Future[Any]":
        """Let a call wait for the session's lane; return its future. Cancelling the future takes the call back."""
        self._check_open()
        loop, now_s = asyncio.get_running_loop(), self._clock()
        future: asyncio.Future[Any] = loop.create_future()

        def done(outcome: Outcome) -> None:
            if self.is_inline:
                self._settle(job, shapes, outcome, future)
                return
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._settle, job, shapes, outcome, future)

        job = Job(session.rank, event, now_s, now_s + deadline_s, self._takes_s.get(event, 0.0), late, call, done)
        session.lane.add(job)
        future.add_done_callback(lambda future: future.cancelled() and session.lane.withdraw(job))
        if self.is_inline:
            self._come_back(loop)
        return future

    def _come_back(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do the next job once the loop has done what is ready now."""
        if not self._due:
            self._due = True
            loop.call_soon(self._do_next, loop)

    def _do_next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = False
        if self._closed or self.failure is not None:
            return
        there_may_be_more = True
        try:
            there_may_be_more = self._lanes[0].step()
        finally:
            if there_may_be_more:
                self._come_back(loop)

    def _settle(self, job: Job, shapes: str, outcome: Outcome, future: "asyncio.Future[Any]") -> None:
        """Hear of a job that is done, on the loop."""
        error = outcome.error
        if self.failure is not None and future.done():
            return  # one that was given up, and ended after all
        if isinstance(error, DeviceError) and error.code not in OWN_FAILURES | {"CAD8020", "CAD8021"}:
            self._fail(error)
        if not future.done():
            if error is None:
                future.set_result(outcome.result)
            else:
                future.set_exception(error)
        if job.event in self._takes_s:
            self._report(job, shapes, outcome)

    def _report(self, job: Job, shapes: str, outcome: Outcome) -> None:
        """Learn from a push that is done, and tell whoever observes."""
        error, took_s = outcome.error, outcome.ended_s - outcome.began_s
        if error is None:
            self._takes_s[job.event] += LEARNING * (took_s - self._takes_s[job.event])
        name = "" if error is None else getattr(error, "code", type(error).__name__)
        waited_s, lateness_s = outcome.began_s - job.came_s, outcome.ended_s - job.deadline_s
        report = Report(job.event, shapes, waited_s, took_s, lateness_s, name)
        if job.rank in self.sessions:
            self.sessions[job.rank].report = report
        if self._observe is not None:
            self._observe(report)

    def _fail(self, error: DeviceError) -> None:
        """End every session: what one of them stood on, all stood on."""
        if self.failure is None:
            self.failure = error
            for lane in self._lanes:
                lane.stop()
            self._refuse_waiting(device_failed(error))

    def _refuse_waiting(self, error: CadenceError) -> None:
        now_s = self._clock()
        for lane in self._lanes:
            waiting = lane.clear()
            if self.failure is not None and lane.running is not None:
                waiting.append(lane.running[0])
            for job in waiting:
                job.done(Outcome(now_s, now_s, error=error))

    def _drop_turn(self, rank: int) -> None:
        """Return a session to its start, on its lane's thread."""
        session = self.sessions.get(rank)
        if session is not None and session.inner is not None and self.turn is not None:
            session.inner.push(self.turn)

    def _give_back(self, lane: Lane) -> None:
        try:
            lane.plan.close()
        except CadenceError:
            if self.failure is None:
                raise  # else the device refuses this as all else, and its error has been told

    def _forget(self, session: "LiveSession") -> None:
        if self.sessions.pop(session.rank, None) is not None:
            session.lane.sessions -= 1


class LiveSession:
    """One stream of an executor. Not made directly: see `Executor.session`."""

    def __init__(self, executor: Executor, lane: Lane, rank: int, late: Late) -> None:
        self.lane, self.rank, self.late = lane, rank, late
        self.inner: Session | None = None
        self.turn = executor.turn
        self.report: Report | None = None
        self._executor = executor
        self._closed = False

    async def push(self, event: str, /, *, deadline_s: float | None = None, **inputs: object) -> Outputs:
        """Let an event happen as `Session.push` does, by `deadline_s` seconds from now: one cadence where none is
        given. Inputs are read when the push runs, and must stay as they are until then.

        Raises as `Session.push`, and SessionError CAD7062 or CAD7063 where the policy for late pushes says so, CAD7065
        for a deadline that is none, DeviceError CAD8020 or CAD8021 once the device has failed.
        """
        self._check_open()
        seconds = self._executor.cadence_s if deadline_s is None else deadline_s
        if not seconds > 0:
            raise SessionError(
                "CAD7065", "a push with no time to do it in", expected="seconds above 0", got=repr(deadline_s)
            )
        call = partial(self._push, event, inputs)
        return await self._executor._submit(self, event, call, seconds, self.late, shapes_of(inputs))  # type: ignore[no-any-return]

    async def seed(self, seed: int) -> None:
        """Seed the random draws from here on, behind the pushes that wait."""
        self._check_open()
        await self._executor._submit(self, SEED, partial(self._seed, seed), float("inf"), "late")

    def close(self) -> None:
        """End the session: what waits is refused, what runs ends by itself. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        now_s, error = self._executor._clock(), session_ended()
        for job in self.lane.clear(self.rank):
            job.done(Outcome(now_s, now_s, error=error))
        with suppress(CadenceError):  # the executor has closed or failed, and all sessions with it
            self._executor._submit(self, CLOSE, self._close_here, 0.0, "late").add_done_callback(_hear)
        self._executor._forget(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def enabled(self) -> tuple[str, ...]:
        """The external events that may be pushed behind what was awaited; none of a session that is not open."""
        return () if self._closed or self.inner is None else self.inner.enabled

    def open_here(self, seed: int) -> None:
        """Open the session on the lane's plan, on the lane's thread."""
        self.inner = self.lane.plan.session(seed, overcommit=True)

    def _close_here(self) -> None:
        if self.inner is not None:
            self.inner.close()

    def _push(self, event: str, inputs: Mapping[str, Any]) -> Outputs:
        if self.inner is None:
            raise session_ended()
        return self.inner.push(event, **inputs)

    def _seed(self, seed: int) -> None:
        if self.inner is None:
            raise session_ended()
        self.inner.seed(seed)

    def _check_open(self) -> None:
        self._executor._check_open()
        if self._closed:
            raise session_ended()


def _hear(future: "asyncio.Future[Any]") -> None:
    """Let nobody miss the error of a call that nobody waits for."""
    if not future.cancelled():
        future.exception()
