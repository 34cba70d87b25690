"""Any order of pushes, cancelled pushes, late ones, dropped turns, closed sessions and a clock that moves: what a
session hears is what it hears alone, doing just what was done to it, and that is what callers were told."""

import asyncio
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cadence_runtime.format.plan import Plan
from cadence_runtime.live import LATE, Executor, LiveSession
from tests.plan.models import loaded
from tests.runtime.live.conftest import Clock, settled, waiting, working
from tests.runtime.talk import frames

WHO = st.integers(0, 2)
OPS = st.one_of(
    st.tuples(st.just("push"), WHO, st.integers(1, 3), st.integers(0, 9)),
    st.tuples(st.just("push"), WHO, st.integers(1, 3), st.integers(0, 9)),
    st.tuples(st.just("step"), WHO, st.just(0), st.just(0)),
    st.tuples(st.just("step"), WHO, st.just(0), st.just(0)),
    st.tuples(st.just("wait"), WHO, st.integers(1, 30), st.just(0)),
    st.tuples(st.just("cancel"), WHO, st.just(0), st.just(0)),
    st.tuples(st.just("close"), WHO, st.just(0), st.just(0)),
)
Pushed = tuple[torch.Tensor, "asyncio.Task[Any]"]


class Told:
    """A session, the pushes that were asked of it, and those that reached it: frames, or None for a turn."""

    def __init__(self, session: LiveSession, seed: int) -> None:
        self.session, self.seed = session, seed
        self.pushes: list[Pushed] = []
        self.reached: list[torch.Tensor | None] = []
        assert session.inner is not None
        self._push, session.inner.push = session.inner.push, self.reach  # type: ignore[method-assign]

    def push(self, count: int, salt: int) -> None:
        x = frames(count, salt)
        self.pushes.append((x, waiting(self.session.push("speak", x=x))))

    def reach(self, event: str, /, **inputs: Any) -> Any:
        self.reached.append(inputs.get("x"))
        return self._push(event, **inputs)

    def done(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return what was pushed and heard, for the pushes that callers were told are done."""
        assert all(task.done() for _, task in self.pushes)
        fine = [(x, task) for x, task in self.pushes if not task.cancelled() and task.exception() is None]
        codes = {task.exception().code for _, task in self.pushes if not task.cancelled() and task.exception()}  # type: ignore[union-attr]
        assert codes <= {"CAD7053", "CAD7062", "CAD7063"}
        return [(x, task.result()["y"]) for x, task in fine]


@settings(max_examples=80)
@given(st.lists(OPS, max_size=30), st.tuples(*(st.sampled_from(LATE) for _ in range(3))))
def test_any_order_of_things_leaves_each_session_what_it_is_alone(
    talk_plan_once: Plan, ops: list[tuple[str, int, int, int]], policies: tuple[Any, ...]
) -> None:
    told = asyncio.run(talk(talk_plan_once, ops, policies))
    for each in told:
        with loaded(talk_plan_once) as plan, plan.session(seed=each.seed) as session:
            expected = []
            for x in each.reached:
                if x is None:
                    session.push("turn")
                else:
                    expected.append((x, session.push("speak", x=x)["y"]))
        done = each.done()
        assert [id(x) for x, _ in done] == [id(x) for x, _ in expected]
        assert all(torch.equal(y, z) for (_, y), (_, z) in zip(done, expected, strict=True))


async def talk(plan: Plan, ops: list[tuple[str, int, int, int]], policies: tuple[Any, ...]) -> list[Told]:
    clock = Clock()
    async with Executor(loaded(plan), lanes=1, clock=clock, threads=False) as executor:
        told = [
            Told(await working(executor, executor.session(seed=who, late=late)), who)
            for who, late in enumerate(policies)
        ]
        for what, who, number, salt in ops:
            match what:
                case "push":
                    told[who].push(number, salt)
                case "step":
                    executor.step()
                case "wait":
                    clock.now_s += number / 1000
                case "cancel" if told[who].pushes:
                    told[who].pushes[-1][1].cancel()
                case "close":
                    told[who].session.close()
            await settled()
        while executor.step():
            await settled()
        await settled()
        assert len(executor._lanes[0].plan._states) == len(executor.sessions)
        return told
