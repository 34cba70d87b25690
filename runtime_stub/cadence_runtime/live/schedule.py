"""Which push a lane does next: the earliest deadline first, and in an overload the oldest sessions first.

    heads        the first push that waits of each session: a session's own pushes keep their order
    in time      done in the order of deadlines, every head ends by its own deadline   -> the earliest deadline
    overload     going through them in that order, wherever one would be late, the newest so far is left out, and
                 waits until nothing else does                                         -> the earliest of the others

So a session is in time whenever it and all older ones can be: one is left out only where it and older ones alone are
too much (after Moore 1968, who leaves out the longest).

A push that cannot be in time even if it came first is *overdue*. Its policy says what becomes of it; one that is done
all the same takes its turn by its age, and its own lateness is held against nobody.

Nothing here knows threads or clocks: times go in, jobs come out.
"""

from bisect import bisect_left, insort
from collections import deque
from heapq import heappop, heappush

from cadence_runtime.live.jobs import Job


class Schedule:
    """The jobs that wait for one lane. `_order` has the heads by deadline, and by age where they are equal."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Job]] = {}
        self._order: list[tuple[float, int, Job]] = []

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, job: Job) -> None:
        """Let a job wait behind the others of its session."""
        jobs = self._waiting.setdefault(job.rank, deque())
        jobs.append(job)
        if len(jobs) == 1:
            insort(self._order, (job.deadline_s, job.rank, job))

    def remove(self, job: Job) -> bool:
        """Take back a job; return whether it was still waiting."""
        jobs = self._waiting.get(job.rank, ())
        if job not in jobs:
            return False
        self._replace(job.rank, [each for each in jobs if each is not job])
        return True

    def clear(self, rank: int | None = None) -> list[Job]:
        """Take back all jobs of a session, or of all; return them."""
        ranks = sorted(self._waiting) if rank is None else [rank]
        found = [job for each in ranks for job in self._waiting.get(each, ())]
        for each in ranks:
            self._replace(each, [])
        return found

    def overdue(self, now_s: float) -> list[list[Job]]:
        """Take out what its policy ends now: lists of one job that is refused, or of the jobs of a turn that is
        dropped."""
        found: list[list[Job]] = []
        ranks = sorted(rank for _, rank, job in self._order if _is_ended(job, now_s))
        for rank in ranks:
            while rank in self._waiting and _is_ended(head := self._waiting[rank][0], now_s):
                jobs = self._waiting[rank]
                ended = [head] if head.late == "refuse" else [job for job in jobs if job.late == "drop-turn"]
                self._replace(rank, [job for job in jobs if job not in ended])
                found.append(ended)
        return found

    def take(self, now_s: float) -> Job | None:
        """Take out the job to do now; None when none waits."""
        if not self._order:
            return None
        job = self._next(now_s)
        jobs = self._waiting[job.rank]
        del self._order[bisect_left(self._order, (job.deadline_s, job.rank))]
        jobs.popleft()
        if jobs:
            insort(self._order, (jobs[0].deadline_s, job.rank, jobs[0]))
        else:
            del self._waiting[job.rank]
        return job

    def work_before(self, job: Job) -> float:
        """Return the seconds of work that a job which comes now finds before it: earlier deadlines of older sessions,
        and all that waits of its own."""
        own = sum(each.takes_s for each in self._waiting.get(job.rank, ()))
        heads = (head for deadline_s, rank, head in self._order if rank < job.rank and deadline_s <= job.deadline_s)
        return own + sum(head.takes_s for head in heads)

    def _next(self, now_s: float) -> Job:
        ends_s = now_s
        for deadline_s, _, job in self._order:
            ends_s += job.takes_s
            if ends_s > deadline_s and not _is_overdue(job, now_s):
                return _first_of_the_oldest(self._order, now_s)
        return self._order[0][2]

    def _replace(self, rank: int, jobs: list[Job]) -> None:
        """Let other jobs of a session wait than do."""
        if old := self._waiting.pop(rank, None):
            del self._order[bisect_left(self._order, (old[0].deadline_s, rank))]
        if jobs:
            self._waiting[rank] = deque(jobs)
            insort(self._order, (jobs[0].deadline_s, rank, jobs[0]))


def _first_of_the_oldest(order: list[tuple[float, int, Job]], now_s: float) -> Job:
    """Return the first job in the order of deadlines that is not left out."""
    ends_s, left_out = now_s, set[int]()
    newest: list[tuple[int, float]] = []
    for deadline_s, rank, job in order:
        heappush(newest, (-rank, job.takes_s))
        ends_s += job.takes_s
        if _is_overdue(job, now_s):
            continue
        while newest and ends_s > deadline_s:
            negative, takes_s = heappop(newest)
            left_out.add(-negative)
            ends_s -= takes_s
    return next((job for _, rank, job in order if rank not in left_out), order[0][2])


def _is_overdue(job: Job, now_s: float) -> bool:
    return now_s + job.takes_s > job.deadline_s


def _is_ended(job: Job, now_s: float) -> bool:
    return job.late != "late" and _is_overdue(job, now_s)
