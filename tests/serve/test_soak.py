"""A server under bad clients: the bits of the others do not change, nothing is left behind, and it ends well."""

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cadence_runtime.format.plan import Plan
from cadence_serve.service import until
from tests.plan.models import loaded
from tests.serve.conftest import Running, get
from tests.serve.soak import KINDS, STEADY, soak
from tests.serve.test_process import ready, started

GROWTH_KB = 40_000
SERVE = [sys.executable, "-m", "cadence_serve"]


def resident_kb(process: "subprocess.Popen[str]") -> int:
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", text)[0])


def files(process: "subprocess.Popen[str]") -> int:
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


async def sessions(running: Running) -> float:
    text = (await get(running, "/metrics"))[1]
    return float(re.findall(r"^cadence_sessions (\S+)$", text, re.M)[0])


@pytest.mark.parametrize("seconds", [30, pytest.param(300, marks=pytest.mark.soak)])
def test_bad_clients_change_nothing_for_the_others(seconds: int, talk: Plan, talk_file: Path, tmp_path: Path) -> None:
    options = ["--port", "0", "--overcommit", "--lanes", "2", "--client-sessions", "99", "--idle", "5"]
    log = tmp_path / "log"
    command = [*SERVE, str(talk_file), *options]
    with log.open("w") as stderr, started(*command, stderr=stderr) as process, loaded(talk) as plan:
        assert process.stdout is not None
        address = process.stdout.readline().strip()

        async def go() -> None:
            running = await ready(address)
            await soak(address, plan, 2, seed=1)  # what is made once is made
            memory_kb, open_files = resident_kb(process), files(process)
            found = await soak(address, plan, seconds, seed=0)
            print(found)
            assert found.differed == 0
            assert found.compared > STEADY * seconds
            assert found.faults.keys() == {kind.__name__ for kind in KINDS}
            for _ in range(100):
                if await sessions(running) == 0:
                    break
                await asyncio.sleep(0.1)
            assert await sessions(running) == 0
            assert await until(lambda: files(process) <= open_files, 20)
            assert resident_kb(process) - memory_kb < GROWTH_KB

        asyncio.run(go())
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert log.read_text() == ""
