"""A server on a free port of this machine, in this process, and the talk as its plan."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cadence_runtime.format.plan import Plan
from cadence_runtime.format.writer import write_plan
from cadence_serve.client import Client, Refused, connect
from cadence_serve.server import Server, address_of, listen
from cadence_serve.service import Service, until
from cadence_serve.settings import Settings
from tests.plan.models import loaded
from tests.runtime.talk import frames, talk_plan


@dataclass(frozen=True, slots=True)
class Running:
    """A server that is ready."""

    address: str
    service: Service
    server: Server

    @property
    def http(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self.address.removeprefix("ws://").partition("/")[0].split(":")
        return host, int(port)


@pytest.fixture(scope="session")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return talk_plan(tmp_path_factory.mktemp("talk"))


@pytest.fixture(scope="session")
def talk_file(talk: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("talk") / "talk.cpu.plan"
    write_plan(path, talk)
    return path


@asynccontextmanager
async def serving(plan: Path, **given: Any) -> AsyncIterator[Running]:
    """Serve a plan until the block ends."""
    settings = Settings(str(plan), **{"port": 0, "lanes": 1, "drain_s": 0.0, "overcommit": True, **given})
    service = Service(settings)
    server = Server(service)
    with listen(settings) as listening:
        running = asyncio.create_task(server.run_until_ended(listening))
        assert await until(lambda: service.status == "ready" and server.started, 30)
        try:
            yield Running(address_of(settings, listening), service, server)
        finally:
            server.should_exit = True
            await running


@asynccontextmanager
async def session_on(running: Running, seed: int = 0, **given: Any) -> AsyncIterator[Client]:
    """A client with an open session."""
    async with connect(running.address, **given) as client:
        await client.open(seed=seed)
        yield client


async def speak(client: Client, count: int, salt: int, **given: Any) -> bytes:
    """Push frames; return the bits that are heard."""
    (frame,) = await client.push("speak", x=samples(count, salt), **given)
    return frame.tensors["y"].tobytes()


def samples(count: int, salt: int) -> "np.ndarray[Any, Any]":
    return frames(count, salt).numpy()


def alone(talk: Plan, seed: int, pushes: list[tuple[int, int]]) -> list[bytes]:
    """What a session hears without a server; a count of 0 is a turn."""
    heard = []
    with loaded(talk) as plan, plan.session(seed=seed) as session:
        for count, salt in pushes:
            if count:
                heard.append(session.push("speak", x=frames(count, salt))["y"].numpy().tobytes())
            else:
                session.push("turn")
    return heard


async def refused(awaitable: Any) -> Refused:
    """Return the error of a client's call, as the server sent it."""
    with pytest.raises(Refused) as caught:
        await awaitable
    return caught.value


async def get(running: Running, path: str, **headers: str) -> tuple[int, str]:
    """Return status and body of a plain request."""
    reader, writer = await asyncio.open_connection(*running.http)
    sent = {"Host": f"127.0.0.1:{running.http[1]}", "Connection": "close", **headers}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    text = (await reader.read()).decode()
    writer.close()
    head, _, body = text.partition("\r\n\r\n")
    return int(head.split()[1]), body
