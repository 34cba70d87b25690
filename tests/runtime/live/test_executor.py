"""The executor on a clock of its own: order, policies, cancelling, failures; and on threads, that bits stay."""

import asyncio
import random
from typing import Any

import pytest
import torch

from cadence_runtime import Capacity, Times
from cadence_runtime.errors import CadenceError, DeviceError, SessionError, UsageError
from cadence_runtime.format.plan import Plan
from cadence_runtime.live import Executor, LiveSession, Report
from cadence_runtime.live.setup import lanes_for
from tests.plan.models import loaded
from tests.runtime.live.conftest import Clock, MakeExecutor, settled, slow, waiting, working
from tests.runtime.talk import frames

CADENCE_S = 0.02


def alone(talk: Plan, seed: int, pushes: list[tuple[int, int]]) -> list[torch.Tensor]:
    """What a session hears without an executor; a count of 0 is a turn."""
    heard = []
    with loaded(talk) as plan, plan.session(seed=seed) as session:
        for count, salt in pushes:
            if count:
                heard.append(session.push("speak", x=frames(count, salt))["y"])
            else:
                session.push("turn")
                heard.append(torch.zeros(0))
    return heard


async def hear(session: LiveSession, count: int, salt: int, **given: Any) -> torch.Tensor:
    return (await session.push("speak", x=frames(count, salt), **given))["y"]  # type: ignore[no-any-return]


async def error_of(awaitable: Any) -> CadenceError:
    with pytest.raises(CadenceError) as caught:
        await awaitable
    return caught.value


def test_pushes_are_done_by_deadline_and_reported(executor_of: MakeExecutor, clock: Clock) -> None:
    reports: list[Report] = []
    executor = executor_of(observe=reports.append)

    async def talk() -> None:
        one, two = [await working(executor, executor.session(seed=seed)) for seed in range(2)]
        slow(one.lane.plan, clock, 0.004)
        tasks = [waiting(hear(one, 2, 0, deadline_s=0.009)), waiting(hear(two, 1, 0, deadline_s=0.0045))]
        await settled()
        while executor.step():
            await settled()
        await asyncio.gather(*tasks)
        assert two.report == Report("speak", "1x1x4", 0.0, 0.004, pytest.approx(-0.0005))
        assert one.report == Report("speak", "1x2x4", 0.004, 0.004, pytest.approx(-0.001))

    asyncio.run(talk())
    assert [report.shapes for report in reports] == ["1x1x4", "1x2x4"]
    assert executor.switches == 1  # the session that was opened last was pushed to first


def test_a_push_that_names_no_deadline_has_a_cadence(executor_of: MakeExecutor, clock: Clock) -> None:
    executor = executor_of()

    async def talk() -> None:
        session = await working(executor, executor.session())
        slow(session.lane.plan, clock, 0.05)
        await working(executor, hear(session, 1, 0))
        assert session.report is not None
        assert session.report.lateness_s == pytest.approx(0.05 - CADENCE_S)
        error = await error_of(hear(session, 1, 0, deadline_s=0.0))
        assert str(error) == ("CAD7065: a push with no time to do it in\n  expected: seconds above 0\n  got:      0.0")
        assert (await error_of(hear(session, 1, 0, deadline_s=float("nan")))).code == "CAD7065"

    asyncio.run(talk())


def test_refuse_leaves_the_session_as_it_was(executor_of: MakeExecutor, clock: Clock, talk: Plan) -> None:
    executor = executor_of(times=Times({transition.captures: 0.015 for transition in talk.transitions}))
    expected = alone(talk, 1, [(1, 0), (1, 1)])

    async def go() -> None:
        older = await working(executor, executor.session())
        session = await working(executor, executor.session(seed=1, late="refuse"))
        heard = [await working(executor, hear(session, 1, 0))]
        before = waiting(hear(older, 1, 5))
        await settled()
        refused = await error_of(hear(session, 2, 9))
        assert str(refused) == (
            "CAD7062: `speak` is refused: it would be late\n"
            "  expected: an end within 20 ms\n"
            "  got:      13.5 ms of waiting, then 13.5 ms of work: 7 ms late\n"
            "  hint:     the session is as it was; push again, with a later deadline or less to do"
        )
        accepted = waiting(hear(session, 1, 1, deadline_s=0.04))
        await settled()
        executor.step()
        await settled()
        heard.append(await working(executor, accepted))
        await before
        assert all(torch.equal(a, b) for a, b in zip(heard, expected, strict=True))

    asyncio.run(go())


def test_refuse_also_holds_for_a_push_that_has_waited_too_long(executor_of: MakeExecutor, clock: Clock) -> None:
    executor = executor_of()

    async def go() -> None:
        session = await working(executor, executor.session(late="refuse"))
        push = waiting(hear(session, 1, 0))
        await settled()
        clock.now_s += 0.03
        executor.step()
        assert "got:      30 ms of waiting, then 0 ms of work: 10 ms late" in str(await error_of(push))

    asyncio.run(go())


def test_drop_turn_ends_what_waits_and_returns_to_the_start(
    executor_of: MakeExecutor, clock: Clock, talk: Plan
) -> None:
    executor = executor_of()
    expected = alone(talk, 1, [(2, 0), (0, 0), (1, 7)])

    async def go() -> None:
        session = await working(executor, executor.session(seed=1, late="drop-turn"))
        heard = [await working(executor, hear(session, 2, 0))]
        turn = [waiting(hear(session, 1, salt)) for salt in (3, 4)]
        await settled()
        clock.now_s += 0.025
        executor.step()
        errors = [await error_of(each) for each in turn]
        assert str(errors[0]) == (
            "CAD7063: the turn was dropped: `speak` came too late for it\n"
            "  expected: an end within 20 ms\n"
            "  got:      25 ms of waiting, then 0 ms of work: 5 ms late\n"
            "  hint:     the session is at its start; begin the next turn"
        )
        assert [error.code for error in errors] == ["CAD7063", "CAD7063"]
        heard += [torch.zeros(0), await working(executor, hear(session, 1, 7))]
        assert all(torch.equal(a, b) for a, b in zip(heard, expected, strict=True))

    asyncio.run(go())


def test_what_cannot_be_asked_for_is_refused(executor_of: MakeExecutor, talk: Plan) -> None:
    from dataclasses import replace

    events = tuple(event for event in talk.program.events if not event.reset)
    without = replace(talk, program=replace(talk.program, events=events))
    transitions = tuple(t for t in talk.transitions if not talk.program.events[t.event].reset)

    async def go() -> None:
        executor = executor_of()
        error = await error_of(executor.session(late="never"))  # type: ignore[arg-type]
        assert isinstance(error, UsageError)
        assert str(error) == (
            "CAD9702: no such policy for late pushes\n  expected: late, drop-turn, refuse\n  got:      'never'"
        )
        async with Executor(loaded(replace(without, transitions=transitions)), lanes=1, threads=False) as other:
            assert str(await error_of(other.session(late="drop-turn"))) == (
                "CAD7064: turns of this plan cannot be dropped\n"
                "  expected: an event that resets, without guard, inputs or choices\n"
                "  got:      none\n"
                "  hint:     use `late` or `refuse`"
            )

    asyncio.run(go())
    with loaded(talk) as plan, pytest.raises(UsageError) as caught:
        Executor(plan, lanes=-1)
    assert str(caught.value) == "CAD9703: too few lanes\n  expected: 0 or more\n  got:      -1"


@pytest.mark.parametrize(
    ("wanted", "slowest_s", "lanes"), [(3, 0.0001, 3), (0, None, 0), (None, 0.0001, 0), (None, 0.5, 1), (None, None, 1)]
)
def test_short_pushes_are_done_on_the_loop(talk: Plan, wanted: int | None, slowest_s: float | None, lanes: int) -> None:
    times = None if slowest_s is None else Times({(0,): slowest_s})
    with loaded(talk) as plan:
        found = lanes_for(plan, wanted, times)
        assert found == lanes or (lanes == 1 and wanted is None and found >= 1)  # as many as there are cores


def test_an_opening_that_is_cancelled_on_the_loop_leaves_no_session(talk: Plan) -> None:
    async def go() -> None:
        async with Executor(loaded(talk), lanes=0) as executor:
            opening = waiting(executor.session())
            await asyncio.sleep(0)
            opening.cancel()
            await settled()
            assert (len(executor.sessions), len(executor._lanes[0].plan._states)) == (0, 0)
            session = await executor.session(seed=1)
            push = waiting(error_of(hear(session, 1, 0)))
            await asyncio.sleep(0)
            session.close()
            assert (await push).code == "CAD7053"
            other = await executor.session(seed=1)
            planted(other, DeviceError("CAD8001", "planted"), times=1)
            pushes = [waiting(error_of(hear(other, 1, 0))) for _ in range(3)]
            assert [(await push).code for push in pushes] == ["CAD8001", "CAD8020", "CAD8020"]

    asyncio.run(go())


def test_sessions_go_to_the_lane_with_the_fewest_and_no_further_than_the_capacity(executor_of: MakeExecutor) -> None:
    executor = executor_of(lanes=2, capacity=Capacity(100, 400, 0.0, None, lanes=2))

    async def go() -> None:
        sessions = [await working(executor, executor.session()) for _ in range(4)]
        assert [session.lane.sessions for session in sessions] == [2, 2, 2, 2]
        assert (await error_of(executor.session())).code == "CAD7060"
        extra = await working(executor, executor.session(overcommit=True))
        extra.close()
        sessions[2].close()
        sessions[2].close()
        again = await working(executor, executor.session())
        assert again.lane is sessions[2].lane
        assert len(executor.sessions) == 4

    asyncio.run(go())


def test_a_push_that_waits_is_taken_back_when_it_is_cancelled(executor_of: MakeExecutor, talk: Plan) -> None:
    executor = executor_of()
    expected = alone(talk, 1, [(1, 0), (2, 2)])

    async def go() -> None:
        session = await working(executor, executor.session(seed=1))
        heard = [await working(executor, hear(session, 1, 0))]
        push = waiting(hear(session, 3, 1))
        await settled()
        push.cancel()
        await settled()
        assert not executor.step()
        heard.append(await working(executor, hear(session, 2, 2)))
        assert all(torch.equal(a, b) for a, b in zip(heard, expected, strict=True))

    asyncio.run(go())


def test_a_push_that_runs_when_it_is_cancelled_happens_whole(executor_of: MakeExecutor, talk: Plan) -> None:
    executor = executor_of()
    expected = alone(talk, 1, [(3, 1), (2, 2)])

    async def go() -> None:
        session = await working(executor, executor.session(seed=1))
        push = waiting(hear(session, 3, 1))
        await settled()
        push.cancel()  # the lane takes it before the loop hears of this
        executor.step()
        with pytest.raises(asyncio.CancelledError):
            await push
        assert torch.equal(await working(executor, hear(session, 2, 2)), expected[1])

    asyncio.run(go())


def test_an_opening_that_is_cancelled_leaves_no_session(executor_of: MakeExecutor) -> None:
    executor = executor_of()

    async def go() -> None:
        opening = waiting(executor.session())
        await settled()
        opening.cancel()
        await settled()
        running = waiting(executor.session())
        await settled()
        running.cancel()
        executor.step()  # takes it before the loop hears of this
        while executor.step():
            await settled()
        await settled()
        while executor.step():
            await settled()
        assert (len(executor.sessions), len(executor._lanes[0].plan._states)) == (0, 0)

    asyncio.run(go())


def test_closing_a_session_refuses_what_waits_and_frees_its_state(executor_of: MakeExecutor) -> None:
    executor = executor_of()

    async def go() -> None:
        session = await working(executor, executor.session())
        push = waiting(hear(session, 1, 0))
        await settled()
        session.close()
        assert (await error_of(push)).code == "CAD7053"
        assert (await error_of(hear(session, 1, 0))).code == "CAD7053"
        executor.step()
        assert len(executor._lanes[0].plan._states) == 0

    asyncio.run(go())


def test_a_push_that_torch_refuses_ends_its_session_and_no_other(executor_of: MakeExecutor) -> None:
    executor = executor_of()

    async def go() -> None:
        one, other = [await working(executor, executor.session()) for _ in range(2)]
        planted(one, DeviceError("CAD8010", "planted"), times=1)
        assert (await working(executor, error_of(hear(one, 1, 0)))).code == "CAD8010"
        assert (await working(executor, error_of(hear(one, 1, 0)))).code == "CAD7053"
        assert (await working(executor, hear(other, 1, 0))).isfinite().all()

    asyncio.run(go())


def planted(session: LiveSession, error: BaseException, times: int) -> None:
    """Let the next captures of a session's lane fail."""
    player, run, left = session.lane.plan._player, session.lane.plan._player.run, [times]

    def failing(capture: int, generator: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return run(capture, generator)

    player.run = failing  # type: ignore[method-assign]


def test_a_failed_launch_ends_all_sessions_and_the_plan_loads_again(executor_of: MakeExecutor) -> None:
    executor = executor_of(lanes=2)

    async def go() -> None:
        one, other = [await working(executor, executor.session()) for _ in range(2)]
        planted(
            one, DeviceError("CAD8001", "the CUDA driver refused `cuGraphLaunch`", got="kernel `k` failed"), times=99
        )
        pushes = [waiting(error_of(hear(session, 1, 0))) for session in (one, one, other)]
        await settled()
        one.lane.step()
        await settled()
        assert [(await push).code for push in pushes] == ["CAD8001", "CAD8020", "CAD8020"]
        error = await error_of(hear(other, 1, 0))
        assert str(error) == (
            "CAD8020: the device failed, and its sessions have ended\n"
            "  expected: a device that works\n"
            "  got:      CAD8001: the CUDA driver refused `cuGraphLaunch`; kernel `k` failed\n"
            "  hint:     load the plan again"
        )
        assert (await error_of(executor.session())).code == "CAD8020"
        other.close()
        await executor.close()
        again = executor_of()
        session = await working(again, again.session())
        assert (await working(again, hear(session, 1, 0))).isfinite().all()

    asyncio.run(go())


def test_a_push_that_does_not_end_is_told_by_name(executor_of: MakeExecutor, clock: Clock) -> None:
    executor = executor_of(wedged_s=5.0)

    async def go() -> None:
        session = await working(executor, executor.session())
        stuck, behind = waiting(error_of(hear(session, 1, 0))), waiting(error_of(hear(session, 1, 0)))
        await settled()

        def look(capture: int, generator: Any) -> Any:
            clock.now_s += 4.0
            executor.look()
            assert executor.failure is None
            clock.now_s += 2.0
            executor.look()
            raise RuntimeError("it ended after all")

        session.lane.plan._player.run = look  # type: ignore[method-assign]
        executor.step()
        assert str(await stuck) == (
            "CAD8021: `speak` does not end\n"
            "  expected: an end within 5 s\n"
            "  got:      none after 6 s\n"
            "  hint:     its thread is left behind; load the plan again"
        )
        assert (await behind).code == "CAD8021"

    asyncio.run(go())


@pytest.mark.parametrize("seed", range(3))
def test_a_clock_that_jumps_changes_no_bits(executor_of: MakeExecutor, clock: Clock, talk: Plan, seed: int) -> None:
    """Hours forward, as after a suspended night, and back, as no clock should."""
    choose = random.Random(seed)  # noqa: S311
    pushes = [(choose.randint(1, 3), choose.randint(0, 99)) for _ in range(12)]
    executor = executor_of()
    expected = alone(talk, 1, pushes)

    async def go() -> None:
        session = await working(executor, executor.session(seed=1))
        other = await working(executor, executor.session(late="refuse"))
        for (count, salt), wanted in zip(pushes, expected, strict=True):
            heard, beside = waiting(hear(session, count, salt)), waiting(hear(other, 1, 0))
            await settled()
            clock.now_s += choose.choice([0.0, 3600.0, -1800.0])
            assert torch.equal(await working(executor, heard), wanted)
            await working(executor, asyncio.wait([beside]))
            assert beside.exception() is None or beside.exception().code == "CAD7062"  # type: ignore[union-attr]

    asyncio.run(go())


def test_closing_refuses_what_waits_and_closes_the_plans(executor_of: MakeExecutor) -> None:
    executor = executor_of(lanes=2)

    async def go() -> None:
        session = await working(executor, executor.session())
        push = waiting(error_of(hear(session, 1, 0)))
        await settled()
        await executor.close()
        await executor.close()
        assert (await push).code == "CAD7052"
        assert (await error_of(executor.session())).code == "CAD7052"
        session.close()

    asyncio.run(go())
    for lane in executor._lanes:
        with pytest.raises(SessionError, match="CAD7052"):
            lane.plan.session()


@pytest.mark.parametrize("lanes", [0, 1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_sessions_on_threads_hear_what_they_hear_alone(talk: Plan, seed: int, lanes: int) -> None:
    """Pushes, turns, cancelled pushes, sessions that leave and come; on the loop, a lane, and two at once."""
    choose = random.Random(seed)  # noqa: S311
    plans = [[(choose.randint(0, 3), choose.randint(0, 99)) for _ in range(12)] for _ in range(6)]
    expected = [alone(talk, who, plan) for who, plan in enumerate(plans)]

    async def stream(executor: Executor, who: int) -> None:
        async with await executor.session(seed=who) as session:
            for (count, salt), wanted in zip(plans[who], expected[who], strict=True):
                if count:
                    assert torch.equal(await hear(session, count, salt), wanted)
                else:
                    await session.push("turn")

    async def nuisance(executor: Executor, who: int) -> None:
        for _ in range(6):
            session = await executor.session(seed=who)
            push = waiting(hear(session, 1, who))
            await asyncio.sleep(0)
            push.cancel()
            session.close()

    async def go() -> None:
        async with Executor(loaded(talk), lanes=lanes) as executor:
            await asyncio.gather(
                *(stream(executor, who) for who in range(6)), *(nuisance(executor, who) for who in range(3))
            )
            assert executor.sessions == {}

    asyncio.run(go())


def test_seeds_take_their_turn(executor_of: MakeExecutor, talk: Plan) -> None:
    executor = executor_of()

    async def go() -> None:
        session = await working(executor, executor.session(seed=1))
        first = await working(executor, hear(session, 1, 0))
        await working(executor, session.push("turn"))
        await working(executor, session.seed(1))
        await working(executor, session.push("turn"))
        assert torch.equal(await working(executor, hear(session, 1, 0)), first)  # the turn draws as the start did
        session.close()
        assert (await error_of(session.seed(1))).code == "CAD7053"

    asyncio.run(go())


@pytest.mark.parametrize("lanes", [0, 1])
def test_an_observer_that_fails_holds_nothing_up(talk: Plan, lanes: int) -> None:
    def observe(report: Report) -> None:
        raise ZeroDivisionError("planted")

    async def go() -> None:
        heard: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(str(context["exception"])))
        async with Executor(loaded(talk), lanes=lanes, observe=observe) as executor:
            sessions = [await executor.session(seed=seed) for seed in range(3)]
            pushes = [hear(session, 1, salt) for session in sessions for salt in range(2)]
            assert all(y.isfinite().all() for y in await asyncio.gather(*pushes))
        assert heard == ["planted"] * 6

    asyncio.run(go())
