"""Steady sessions on a server, and around them clients of every bad kind.

Each steady session is compared bit for bit with one of its own plan in this process. Faults are drawn from a seed; only
how many there are depends on the time that is given.
"""

import asyncio
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from websockets.exceptions import WebSocketException

from cadence_runtime import LoadedPlan
from cadence_serve.client import Refused, connect
from cadence_serve.wire import encode
from tests.runtime.talk import frames
from tests.serve.conftest import samples

CADENCE_S = 0.02
STEADY = 4

PUSHING = """
import asyncio, sys
import numpy as np
from cadence_serve.client import connect

async def go():
    async with connect(sys.argv[1]) as client:
        await client.open()
        print("open", flush=True)
        while True:
            await client.push("speak", x=np.zeros((1, 3, 4), np.float32))

asyncio.run(go())
"""
"""A process that pushes until it is killed."""


@dataclass(slots=True)
class Soaked:
    """What a soak came to: pushes of steady sessions that were compared, those that differed, lateness of each in
    milliseconds, and faults by kind."""

    compared: int = 0
    differed: int = 0
    lateness_ms: list[float] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        p50, p99, most = np.percentile(self.lateness_ms, [50, 99, 100])
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        late = sum(each > 0 for each in self.lateness_ms)
        return (
            f"{self.compared} pushes compared, {self.differed} differed; {late} late, "
            f"lateness p50 {p50:.1f}, p99 {p99:.1f}, max {most:.1f} ms; faults: {faults}"
        )


async def soak(address: str, plan: LoadedPlan, seconds: float, seed: int) -> Soaked:
    """Keep steady sessions and bad clients going for some seconds, one bad client of each kind at a time."""
    found, until = Soaked(), time.monotonic() + seconds
    steady = [_steady(address, plan, who, _random(seed, who), until, found) for who in range(STEADY)]
    bad = [_repeat(kind, address, _random(seed, kind.__name__), until, found) for kind in KINDS]
    await asyncio.gather(*steady, *bad)
    return found


def _random(seed: int, name: object) -> random.Random:
    return random.Random(f"{seed}/{name}")  # noqa: S311


async def _steady(address: str, plan: LoadedPlan, who: int, choose: random.Random, until: float, found: Soaked) -> None:
    """Talk at the plan's cadence, with turns at random, and compare all that is heard."""
    async with connect(address) as client:
        await client.open(seed=who)
        with plan.session(seed=who) as alone:
            due = time.monotonic() + choose.random() * CADENCE_S
            while due < until:
                await asyncio.sleep(due - time.monotonic())
                count, salt = choose.choice([0, 1, 1, 2, 3, 3]), choose.randrange(1000)
                if count:
                    expected = alone.push("speak", x=frames(count, salt))["y"].numpy().tobytes()
                    (frame,) = await client.push("speak", x=samples(count, salt))
                    found.differed += frame.tensors["y"].tobytes() != expected
                    found.compared += 1
                else:
                    alone.push("turn")
                    await client.reset()
                found.lateness_ms.append(1000 * (time.monotonic() - due - CADENCE_S))
                due = max(due + CADENCE_S, time.monotonic() - 1.0)
        await client.close()


async def _repeat(
    kind: Callable[[str, random.Random], Coroutine[Any, Any, None]],
    address: str,
    choose: random.Random,
    until: float,
    found: Soaked,
) -> None:
    while time.monotonic() < until:
        with suppress(WebSocketException, Refused, OSError, EOFError):
            await kind(address, choose)
        found.faults[kind.__name__] += 1
        await asyncio.sleep(choose.random() * 0.1)


async def killed(address: str, choose: random.Random) -> None:
    """A process that is killed in the middle of a push."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PUSHING, address, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        await asyncio.sleep(choose.random() * 0.2)
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def malformed(address: str, choose: random.Random) -> None:
    """Messages of random bytes, and good ones with a byte that is not."""
    async with connect(address) as client:
        await client.open()
        good = bytearray(encode({"type": "push", "event": "speak"}, {"x": samples(2, 1)}))  # type: ignore[arg-type]
        for _ in range(choose.randrange(20)):
            good[choose.randrange(len(good))] = choose.randrange(256)
            body = choose.randbytes(choose.randrange(60)) if choose.random() < 0.5 else bytes(good)
            await client.socket.send(body if choose.random() < 0.8 else body.decode("latin-1"))
            with suppress(Refused):
                await client.receive()


async def misshapen(address: str, choose: random.Random) -> None:
    """Arrays of other shapes and dtypes, events that there are none of, deadlines that have passed."""
    async with connect(address) as client:
        await client.open(late=choose.choice(["late", "refuse", "drop-turn"]))
        for _ in range(choose.randrange(20)):
            shape = [choose.randrange(5) for _ in range(choose.randrange(4))]
            array = np.zeros(shape, choose.choice(["float32", "float64", "int64", "bool"]))
            with suppress(Refused):
                await client.push(choose.choice(["speak", "turn", "sing"]), x=array)
            with suppress(Refused):
                await client.push("speak", x=samples(1, 1), deadline_ms=choose.choice([0.001, 1, 1000]))


async def slow(address: str, choose: random.Random) -> None:
    """A client that pushes and does not read."""
    async with connect(address) as client:
        await client.open()
        client.socket.transport.pause_reading()
        body = encode({"type": "push", "event": "speak"}, {"x": samples(3, 1)})
        for _ in range(choose.randrange(200)):
            await client.socket.send(body)
        await asyncio.sleep(choose.random())
        client.socket.transport.abort()


async def hasty(address: str, choose: random.Random) -> None:
    """Connections that break off: before a session, in the middle of a message, with pushes under way."""
    async with connect(address) as client:
        if choose.random() < 0.7:
            await client.open(seed=choose.randrange(9))
            for _ in range(choose.randrange(3)):
                await client.socket.send(encode({"type": "push", "event": "speak"}, {"x": samples(3, 1)}))
        client.socket.transport.write(choose.randbytes(choose.randrange(8)))
        client.socket.transport.abort()


async def stray(address: str, choose: random.Random) -> None:
    """Bytes that are no HTTP."""
    host, port = address.removeprefix("ws://").partition("/")[0].split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(choose.randbytes(choose.randrange(1, 300)))
    writer.close()
    await writer.wait_closed()


KINDS = (killed, malformed, misshapen, slow, hasty, stray)
