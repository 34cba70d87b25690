"""A lane: a plan of its own over shared weights, the schedule of what waits for it, and the thread that works it off.

Sessions stay on the lane they were opened on: their state is there. `step` does all that the thread does, one job at a
time, so a test can do without the thread.
"""

import threading
from collections.abc import Callable

from cadence_runtime.errors import SessionError
from cadence_runtime.live.jobs import Job, Outcome
from cadence_runtime.live.schedule import Schedule
from cadence_runtime.session import LoadedPlan

Clock = Callable[[], float]


class Lane:
    """Jobs come from any thread; `drop` is called on the lane's own for each turn that is dropped, with its rank."""

    def __init__(self, plan: LoadedPlan, clock: Clock, drop: Callable[[int], None]) -> None:
        self.plan, self.sessions = plan, 0
        self.running: tuple[Job, float] | None = None
        self._clock, self._drop = clock, drop
        self._schedule = Schedule()
        self._wake = threading.Condition()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self, name: str) -> None:
        """Work jobs off on a thread."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more jobs; one that runs ends by itself."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()

    def join(self) -> None:
        """Wait for the thread to end."""
        if self._thread is not None:
            self._thread.join()

    def add(self, job: Job) -> None:
        """Let a job wait. Raises SessionError CAD7062 for one that is to be refused when late, and would be."""
        with self._wake:
            if job.late == "refuse":
                self._check_in_time(job)
            self._schedule.add(job)
            self._wake.notify()

    def withdraw(self, job: Job) -> bool:
        """Take back a job that waits; return False for one that runs or is done."""
        with self._wake:
            return self._schedule.remove(job)

    def clear(self, rank: int | None = None) -> list[Job]:
        """Take back all that waits, of a session or of all."""
        with self._wake:
            return self._schedule.clear(rank)

    def step(self) -> bool:
        """End what its policy ends, and do the next job; return whether there was anything."""
        with self._wake:
            now_s = self._clock()
            ended = self._schedule.overdue(now_s)
            job = self._schedule.take(now_s)
            self.running = None if job is None else (job, now_s)
        for jobs in ended:
            self._end(jobs, now_s)
        if job is not None:
            outcome = self._do(job)
            self.running = None
            job.done(outcome)
        return job is not None or bool(ended)

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._stopped or len(self._schedule))
                if self._stopped:
                    return
            self.step()

    def _do(self, job: Job) -> Outcome:
        began_s = self._clock()
        try:
            result = job.call()
        except BaseException as error:
            return Outcome(began_s, self._clock(), error=error)
        return Outcome(began_s, self._clock(), result)

    def _end(self, jobs: list[Job], now_s: float) -> None:
        """Refuse a push, or drop a turn: the session is back at its start before anybody hears of it."""
        failure: BaseException | None = None
        if jobs[0].late == "drop-turn":
            try:
                self._drop(jobs[0].rank)
            except BaseException as error:
                failure = error
        for job in jobs:
            job.done(Outcome(now_s, now_s, error=failure or _late(job, now_s, now_s - job.came_s)))

    def _check_in_time(self, job: Job) -> None:
        busy_s = self._schedule.work_before(job)
        if self.running is not None:
            doing, began_s = self.running
            busy_s += max(0.0, began_s + doing.takes_s - job.came_s)
        if job.came_s + busy_s + job.takes_s > job.deadline_s:
            raise _late(job, job.came_s + busy_s, busy_s)


def _late(job: Job, start_s: float, before_s: float) -> SessionError:
    within = f"an end within {_ms(job.deadline_s - job.came_s)}"
    late = _ms(start_s + job.takes_s - job.deadline_s)
    got = f"{_ms(before_s)} of waiting, then {_ms(job.takes_s)} of work: {late} late"
    if job.late == "drop-turn":
        return SessionError(
            "CAD7063",
            f"the turn was dropped: `{job.event}` came too late for it",
            expected=within,
            got=got,
            hint="the session is at its start; begin the next turn",
        )
    return SessionError(
        "CAD7062",
        f"`{job.event}` is refused: it would be late",
        expected=within,
        got=got,
        hint="the session is as it was; push again, with a later deadline or less to do",
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"
