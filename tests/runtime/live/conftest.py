"""A clock that only moves when it is told to, and an executor whose pushes take time on it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cadence_runtime import LoadedPlan
from cadence_runtime.format.plan import Plan
from cadence_runtime.live import Executor
from tests.plan.models import loaded


class Clock:
    """Seconds, as `now_s` says."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def slow(plan: LoadedPlan, clock: Clock, takes_s: float) -> None:
    """Let every capture of a plan take time on a clock."""
    player, run = plan._player, plan._player.run

    def slow_run(capture: int, generator: Any) -> Any:
        clock.now_s += takes_s
        return run(capture, generator)

    player.run = slow_run  # type: ignore[method-assign]


MakeExecutor = Callable[..., Executor]


@pytest.fixture
def executor_of(talk: Plan, clock: Clock) -> Iterator[MakeExecutor]:
    """Return an executor of the talk without threads; captures take `takes_s` on the clock once sessions are open."""
    made: list[Executor] = []

    def make(**given: Any) -> Executor:
        made.append(Executor(loaded(talk), **{"lanes": 1, "clock": clock, "threads": False, **given}))
        return made[-1]

    yield make
    for executor in made:
        asyncio.run(executor.close())


async def settled() -> None:
    """Let the loop hear of everything that has happened."""
    for _ in range(4):
        await asyncio.sleep(0)


async def working(executor: Executor, awaitable: Any) -> Any:
    """Wait for something while the executor's lanes work."""
    task = asyncio.ensure_future(awaitable)
    await settled()
    while not task.done():
        executor.step()
        await settled()
    return await task


def waiting(awaitable: Any) -> "asyncio.Task[Any]":
    """Start something without waiting for it."""
    return asyncio.ensure_future(awaitable)


@pytest.fixture(scope="session")
def talk_plan_once(talk: Plan) -> Plan:
    """The talk, for tests that are run over and over with one fixture."""
    return talk
