"""Which push a lane does next: the earliest deadline first, and in an overload the oldest sessions first.

    heads        the first push that waits of each session: a session's own pushes keep their order
    in time      done in the order of deadlines, every head ends by its own deadline   -> the earliest deadline
    overload     sessions are taken in, the oldest first, as long as those taken in stay in time;
                 the rest, the newest, wait until nothing else does                    -> the earliest of those taken in

A push that cannot be in time even if it came first is *overdue*. Its policy says what becomes of it; one that is done
all the same takes its turn by its age, and its own lateness is held against nobody.

Nothing here knows threads or clocks: times go in, jobs come out.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from cadence_runtime.live.jobs import Job


class Schedule:
    """The jobs that wait for one lane."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Job]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, job: Job) -> None:
        """Let a job wait behind the others of its session."""
        self._waiting.setdefault(job.rank, deque()).append(job)

    def remove(self, job: Job) -> bool:
        """Take back a job; return whether it was still waiting."""
        jobs = self._waiting.get(job.rank, ())
        if job not in jobs:
            return False
        self._keep(job.rank, [each for each in jobs if each is not job])
        return True

    def clear(self, rank: int | None = None) -> list[Job]:
        """Take back all jobs of a session, or of all; return them."""
        ranks = sorted(self._waiting) if rank is None else [rank]
        return [job for each in ranks for job in self._waiting.pop(each, ())]

    def overdue(self, now_s: float) -> list[list[Job]]:
        """Take out what its policy ends now: lists of one job that is refused, or of the jobs of a turn that is
        dropped."""
        found: list[list[Job]] = []
        for rank in sorted(self._waiting):
            while (job := self._head(rank)) is not None and job.late != "late" and _is_overdue(job, now_s):
                if job.late == "refuse":
                    self._keep(rank, list(self._waiting[rank])[1:])
                    found.append([job])
                else:
                    turn = [each for each in self._waiting[rank] if each.late == "drop-turn"]
                    self._keep(rank, [each for each in self._waiting[rank] if each.late != "drop-turn"])
                    found.append(turn)
        return found

    def take(self, now_s: float) -> Job | None:
        """Take out the job to do now; None when none waits."""
        heads = [jobs[0] for jobs in self._waiting.values()]
        if not heads:
            return None
        job = _next(heads, now_s)
        self._keep(job.rank, list(self._waiting[job.rank])[1:])
        return job

    def work_before(self, job: Job) -> float:
        """Return the seconds of work that a job which comes now finds before it: earlier deadlines of older sessions,
        and all that waits of its own."""
        own = sum(each.takes_s for each in self._waiting.get(job.rank, ()))
        heads = (jobs[0] for rank, jobs in self._waiting.items() if rank < job.rank)
        return own + sum(head.takes_s for head in heads if head.deadline_s <= job.deadline_s)

    def _head(self, rank: int) -> Job | None:
        jobs = self._waiting.get(rank)
        return jobs[0] if jobs else None

    def _keep(self, rank: int, jobs: Iterable[Job]) -> None:
        self._waiting[rank] = deque(jobs)
        if not self._waiting[rank]:
            del self._waiting[rank]


def _next(heads: Sequence[Job], now_s: float) -> Job:
    order = sorted(heads, key=_by_deadline)
    if _in_time(order, now_s):
        return order[0]
    taken: list[Job] = []
    for job in sorted(heads, key=lambda job: job.rank):
        trial = sorted([*taken, job], key=_by_deadline)
        if _in_time(trial, now_s):
            taken = trial
    return taken[0]  # the oldest alone is in time, or overdue


def _by_deadline(job: Job) -> tuple[float, int]:
    return job.deadline_s, job.rank


def _in_time(order: Sequence[Job], now_s: float) -> bool:
    """Return whether every job that is not overdue ends by its deadline when they are done in this order."""
    ends_s = now_s
    for job in order:
        ends_s += job.takes_s
        if ends_s > job.deadline_s and not _is_overdue(job, now_s):
            return False
    return True


def _is_overdue(job: Job, now_s: float) -> bool:
    return now_s + job.takes_s > job.deadline_s
