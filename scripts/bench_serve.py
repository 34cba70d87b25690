"""Times the server on loopback: `python scripts/bench_serve.py PLAN SESSIONS [SECONDS]`.

N clients in this process talk to a server in another, each at the plan's cadence. What is printed is what the server
adds to a push: from a client's sending to its last frame, less the time that the push waited and took on its lane.
"""

import asyncio
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress

import numpy as np

from cadence_runtime.check import open_plan
from cadence_serve.client import connect
from cadencec.bench.run import LEAD_S, Conditions, dues_of
from cadencec.bench.talk import Talks


async def stream(address: str, talks: Talks, who: int, conditions: Conditions, begin: asyncio.Event) -> list[float]:
    """Talk as one client; return what the server added to each push, in milliseconds."""
    added_ms, cadence_ms = [], conditions.cadence_s * 1000
    units = list(dues_of(talks, who, conditions))
    async with connect(address) as client:
        await client.open(seed=who)
        await begin.wait()
        begun = time.monotonic() + LEAD_S
        for due_s, _, unit in units:
            inputs = {name: tensor.numpy() for name, tensor in unit.inputs.items()}
            await asyncio.sleep(begun + due_s - time.monotonic())
            sent = time.monotonic()
            await client.push(unit.event, **inputs, **unit.choices)
            added_ms.append((time.monotonic() - sent) * 1000 - (client.lateness_ms or 0.0) - cadence_ms)
    return added_ms


async def run(address: str, talks: Talks, sessions: int, conditions: Conditions) -> list[float]:
    """Open all sessions, then let them talk at once."""
    begin = asyncio.Event()
    streams = [asyncio.ensure_future(stream(address, talks, who, conditions, begin)) for who in range(sessions)]
    await asyncio.sleep(1 + sessions / 50)
    begin.set()
    return [each for added in await asyncio.gather(*streams) for each in added]


def wait_until_ready(address: str) -> None:
    health = address.replace("ws://", "http://").replace("/v1/stream", "/health")
    while True:
        with suppress(urllib.error.HTTPError):  # 503: it is loading
            urllib.request.urlopen(health).close()  # noqa: S310
            return
        time.sleep(0.1)


def main(plan: str, sessions: int, seconds: float) -> int:
    found = open_plan(plan)
    conditions = Conditions(float(found.program.cadence_s or 1), 0.0, seconds, None)
    command = [sys.executable, "-m", "cadence_serve", plan, "--port", "0", "--client-sessions", str(sessions)]
    with subprocess.Popen([*command, "--overcommit"], stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().strip() if server.stdout else ""
            wait_until_ready(address)
            added_ms = asyncio.run(run(address, Talks(found, 0), sessions, conditions))
        finally:
            server.terminate()
    p50, p99, most = np.percentile(added_ms, [50, 99, 100])
    print(
        f"{sessions} sessions, {len(added_ms)} pushes: the server adds p50 {p50:.2f}, p99 {p99:.2f}, max {most:.2f} ms"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 10.0))
