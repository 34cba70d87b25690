"""The example for Ray Serve on this machine: sessions on two replicas hear what each hears alone."""

import asyncio
import importlib.util
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from cadence_runtime.format.plan import Plan
from cadence_serve.client import connect
from tests.serve.conftest import alone, speak

ROOT = Path(__file__).resolve().parents[2]
PUSHES = [(2, 1), (1, 2), (3, 4)]


def example() -> Any:
    spec = importlib.util.spec_from_file_location("ray_serve", ROOT / "examples" / "ray_serve.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sessions_on_replicas_hear_what_they_hear_alone(talk: Plan, talk_file: Path) -> None:
    ray = pytest.importorskip("ray")
    serve = pytest.importorskip("ray.serve")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime_stub"), os.environ.get("PYTHONPATH", "")])}
    ray.init(num_cpus=4, include_dashboard=False, runtime_env={"env_vars": paths})
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(example().build(str(talk_file), 2))

        async def stream(who: int) -> list[bytes]:
            async with connect(f"ws://127.0.0.1:{port}/v1/stream") as client:
                await client.open(seed=who)
                return [await speak(client, count, salt) for count, salt in PUSHES]

        async def go() -> list[list[bytes]]:
            return await asyncio.gather(*(stream(who) for who in range(6)))

        assert asyncio.run(go()) == [alone(talk, who, PUSHES) for who in range(6)]
    finally:
        serve.shutdown()
        ray.shutdown()
