"""The plan behind a server: loading, ready, draining or failed, and the streams that are open on it."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Literal as OneOf
from typing import Protocol

from cadence_runtime import Policy, load, measure
from cadence_runtime.errors import CadenceError, DeviceError, SessionError
from cadence_runtime.live import Executor
from cadence_serve.metrics import Metrics
from cadence_serve.settings import Settings

Status = OneOf["loading", "ready", "draining", "failed"]


class Stream(Protocol):
    """One client's connection."""

    async def end(self, error: CadenceError) -> None:
        """Tell the client why its session ends, and close."""


class Service:
    """One plan for many streams. All methods belong to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.token = settings, settings.token()
        self.executor: Executor | None = None
        self.streams: set[Stream] = set()
        self.metrics = Metrics(lambda: self.executor)
        self._clients: Counter[str] = Counter()
        self._draining = False
        self._watch: asyncio.Task[None] | None = None

    @property
    def status(self) -> Status:
        if self._draining:
            return "draining"
        if self.executor is None:
            return "loading"
        return "ready" if self.executor.failure is None else "failed"

    async def load(self) -> None:
        """Load the plan, run every key of it once and measure it; then the service is ready."""
        self.executor = await asyncio.to_thread(self._load)
        gc.collect()
        gc.freeze()  # what is loaded stays: to look through it again would hold up pushes for two cadences
        self._watch = asyncio.create_task(self._look())

    def _load(self) -> Executor:
        settings = self.settings
        policy = None if settings.policy is None else Policy.of_file(settings.policy)
        lanes = max(1, settings.lanes or 1)
        plan = load(
            settings.plan,
            settings.weights,
            policy=policy,
            warm=True,
            budget_bytes=settings.budget_bytes,
            lanes=lanes,
        )
        try:
            executor = Executor(
                plan,
                lanes=settings.lanes,
                times=measure(plan),
                wedged_s=settings.wedged_s,
                observe=self.metrics.observe,
            )
        except BaseException:
            plan.close()
            raise
        times = executor.rehearse()
        executor.capacity = plan.capacity(times, ahead_s=settings.ahead_s, share=settings.share, lanes=executor.lanes)
        return executor

    def ready(self) -> Executor:
        """Return the executor. Raises SessionError CAD7076 while there is none for new sessions."""
        executor = self.executor
        if self.status != "ready" or executor is None:
            raise SessionError(
                "CAD7076",
                f"the server takes no sessions: it is {self.status}",
                expected="a server that is ready",
                got=self.status,
                hint="ask /health, and try again later",
            )
        return executor

    def join(self, client: str, stream: Stream) -> None:
        """Count a stream of a client. Raises SessionError CAD7074 for one too many."""
        if self._clients[client] >= self.settings.client_sessions:
            raise SessionError(
                "CAD7074",
                "too many sessions of one client",
                expected=f"at most {self.settings.client_sessions}",
                got=str(self._clients[client] + 1),
                hint="close one first",
            )
        self._clients[client] += 1
        self.streams.add(stream)

    def leave(self, client: str, stream: Stream) -> None:
        """Forget a stream that joined."""
        if stream in self.streams:
            self.streams.remove(stream)
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    async def drain(self) -> None:
        """Take no more sessions, and wait for those that are open; after `drain_s` end them."""
        self._draining = True
        await until(lambda: not self.streams, self.settings.drain_s)
        error = SessionError(
            "CAD7076",
            "the server takes no sessions: it is draining",
            expected="a server that is ready",
            got="draining",
            hint="connect again: another process takes over",
        )
        await asyncio.gather(*(stream.end(error) for stream in tuple(self.streams)))

    async def close(self) -> None:
        """End every session and give back the plan."""
        if self._watch is not None:
            self._watch.cancel()
        if self.executor is not None:
            await self.executor.close()

    async def _look(self) -> None:
        """Mind the clock for pushes that do not end."""
        while self.executor is not None and self.executor.failure is None:
            await asyncio.sleep(self.settings.wedged_s / 4)
            with suppress(DeviceError):
                self.executor.look()


async def until(holds: Callable[[], bool], seconds: float, every_s: float = 0.02) -> bool:
    """Wait until something holds, at most for so long; return whether it does."""
    for _ in range(int(seconds / every_s)):
        if holds():
            return True
        await asyncio.sleep(every_s)
    return holds()
