"""The schedule: earliest deadlines first, in an overload the oldest sessions; what its policy ends is ended."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.live.jobs import Job, Late
from cadence_runtime.live.schedule import Schedule


def job(rank: int, deadline_s: float, takes_s: float = 1.0, late: Late = "late", event: str = "e") -> Job:
    return Job(rank, event, 0.0, deadline_s, takes_s, late, lambda: None, lambda outcome: None)


def schedule_of(*jobs: Job) -> Schedule:
    schedule = Schedule()
    for each in jobs:
        schedule.add(each)
    return schedule


def worked_off(schedule: Schedule, now_s: float = 0.0) -> list[tuple[Job, float]]:
    """Return the jobs in the order in which they are done, with their ends, when each takes what it is thought to."""
    done = []
    while (taken := schedule.take(now_s)) is not None:
        now_s += taken.takes_s
        done.append((taken, now_s))
    return done


JOBS = st.lists(
    st.builds(job, st.integers(0, 8), st.integers(0, 20).map(float), st.integers(0, 4).map(float), st.just("late")),
    max_size=12,
)


@given(JOBS)
def test_every_job_is_done_once_and_a_sessions_own_keep_their_order(jobs: list[Job]) -> None:
    done = [each for each, _ in worked_off(schedule_of(*jobs))]
    assert sorted(map(id, done)) == sorted(map(id, jobs))
    for rank in range(9):
        assert [each for each in done if each.rank == rank] == [each for each in jobs if each.rank == rank]


def one_each(jobs: list[Job]) -> list[Job]:
    """Keep the first job of each session."""
    return list({each.rank: each for each in reversed(jobs)}.values())


def in_time(jobs: list[Job]) -> bool:
    """Whether jobs that come together can all end by their deadlines: done by deadline, they do if any order does."""
    now_s = 0.0
    for each in sorted(jobs, key=lambda each: each.deadline_s):
        now_s += each.takes_s
        if now_s > each.deadline_s:
            return False
    return True


@given(JOBS)
def test_a_session_is_in_time_whenever_it_and_all_older_ones_can_be(jobs: list[Job]) -> None:
    jobs = one_each(jobs)
    ends = {each.rank: end for each, end in worked_off(schedule_of(*jobs))}
    for each in jobs:
        older = [other for other in jobs if other.rank <= each.rank]
        if in_time(older):
            assert ends[each.rank] <= each.deadline_s


def test_the_earliest_deadline_comes_first_and_age_breaks_ties() -> None:
    jobs = [job(0, 9.0), job(1, 5.0), job(2, 5.0), job(3, 4.0)]
    assert [each.rank for each, _ in worked_off(schedule_of(*jobs))] == [3, 1, 2, 0]


def test_in_an_overload_the_newest_wait() -> None:
    jobs = [job(rank, 3.0 - rank / 10) for rank in range(5)]  # room for three of them, the newest with the least time
    assert [each.rank for each, _ in worked_off(schedule_of(*jobs))] == [2, 1, 0, 4, 3]


def test_one_that_is_overdue_is_done_by_its_age() -> None:
    assert [each.rank for each, _ in worked_off(schedule_of(job(0, 0.5), job(1, 2.0)))] == [0, 1]
    assert [each.rank for each, _ in worked_off(schedule_of(job(0, 1.0), job(1, 0.5)))] == [0, 1]


def test_what_its_policy_ends_is_taken_out() -> None:
    refused, later = job(0, 0.5, late="refuse"), job(0, 9.0, late="refuse")
    dropped, behind, seed = job(1, 0.5, late="drop-turn"), job(1, 9.0, late="drop-turn"), job(1, 99.0)
    late = job(2, 0.5)
    schedule = schedule_of(refused, later, dropped, seed, behind, late)
    assert schedule.overdue(0.0) == [[refused], [dropped, behind]]
    assert schedule.overdue(0.0) == []
    assert [each for each, _ in worked_off(schedule)] == [late, later, seed]


def test_jobs_are_taken_back() -> None:
    one, other = job(3, 9.0), job(3, 9.0)
    schedule = schedule_of(one, other, job(4, 9.0))
    assert schedule.remove(one)
    assert not schedule.remove(one)
    assert schedule.clear(3) == [other]
    assert len(schedule) == 1
    assert len(schedule.clear()) == 1
    assert schedule.take(0.0) is None


def test_the_work_before_a_job_is_that_of_older_sessions_with_earlier_deadlines() -> None:
    schedule = schedule_of(job(0, 5.0, 1.0), job(1, 9.0, 2.0), job(3, 1.0, 4.0), job(2, 7.0, 8.0))
    assert schedule.work_before(job(2, 6.0)) == 9.0
    assert schedule.work_before(job(0, 6.0)) == 1.0
    assert schedule.work_before(job(9, 20.0)) == 15.0


def test_an_overload_that_lasts_degrades_the_newest_sessions_alone() -> None:
    """Twelve sessions at a period of ten, and each push takes one: there is room for ten."""
    late = simulated(sessions=12, period_s=10.0, periods=60)
    assert late[:10] == [0] * 10
    assert min(late[10:]) > 50


def test_without_overload_nobody_is_late() -> None:
    assert simulated(sessions=10, period_s=10.0, periods=60) == [0] * 10


def simulated(sessions: int, period_s: float, periods: int) -> list[int]:
    """Return how many pushes of each session end late when all bring one a period, spread over it, for a lane."""
    comes = sorted(
        (turn * period_s + rank * 7 % sessions * period_s / sessions, rank)
        for turn in range(periods)
        for rank in range(sessions)
    )
    schedule, now_s, late = Schedule(), 0.0, [0] * sessions
    while comes or len(schedule):
        if not len(schedule):
            now_s = max(now_s, comes[0][0])
        while comes and comes[0][0] <= now_s:
            came_s, rank = comes.pop(0)
            schedule.add(replace(job(rank, came_s + period_s), came_s=came_s))
        taken = schedule.take(now_s)
        assert taken is not None
        now_s += taken.takes_s
        late[taken.rank] += now_s > taken.deadline_s + 1e-9
    return late
