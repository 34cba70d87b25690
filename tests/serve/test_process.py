"""The server as a process: it announces itself, drains on SIGTERM, and imports neither the compiler nor a model."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.serve.conftest import Running, alone, get, session_on, speak

SERVE = [sys.executable, "-m", "cadence_serve"]
CADENCEC = [sys.executable, "-m", "cadencec", "serve"]


@contextmanager
def started(*command: str, stderr: int | IO[str] = subprocess.PIPE) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


async def ready(address: str) -> Running:
    """Wait until a server answers that it is ready."""
    running = Running(address, None, None)  # type: ignore[arg-type]
    while (await get(running, "/health"))[0] != 200:
        await asyncio.sleep(0.05)
    return running


@pytest.mark.parametrize("command", [SERVE, [*CADENCEC, "--json"]], ids=["module", "verb"])
def test_it_serves_and_ends_gracefully(command: list[str], talk_file: Path, talk: object) -> None:
    with started(*command, str(talk_file), "--port", "0", "--overcommit", "--drain", "20") as process:
        assert process.stdout is not None
        if command is SERVE:
            address = process.stdout.readline().strip()
        else:
            lines = [process.stdout.readline() for _ in range(4)]
            body = json.loads("".join(lines))
            assert body.pop("schema") == "cadencec.serve/1"
            address = body["address"]

        async def go() -> None:
            async with session_on(await ready(address), seed=3) as client:
                process.send_signal(signal.SIGTERM)
                while (await get(Running(address, None, None), "/health"))[1] != '{"status":"draining"}':  # type: ignore[arg-type]
                    await asyncio.sleep(0.02)
                assert [await speak(client, 2, 1)] == alone(talk, 3, [(2, 1)])  # type: ignore[arg-type]

        asyncio.run(go())
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_the_module_needs_no_compiler(talk_file: Path) -> None:
    code = (
        "import sys, cadence_serve.server, cadence_serve.client\n"
        "sys.exit(', '.join(sorted({'torch', 'cadencec', 'cuda'} & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (["none.plan", "--port", "0"], "CAD9201", 2),
        (["none.plan", "--host", "10.0.0.1"], "CAD9711", 2),
        (["none.plan", "--lanes", "-1"], "CAD9715", 2),
    ],
)
@pytest.mark.parametrize("command", [SERVE, CADENCEC], ids=["module", "verb"])
def test_what_is_wrong_at_the_start_is_one_message(
    command: list[str], arguments: list[str], code: str, exit_code: int, tmp_path: Path
) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == exit_code
    assert done.stderr.startswith(f"error {code}: ")
    assert "Traceback" not in done.stderr
