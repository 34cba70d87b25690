"""A session over the wire: it hears what it hears alone, and what a client sends wrong gets one typed error."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed, InvalidStatus

from cadence_runtime.errors import DeviceError
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.writer import write_plan
from cadence_serve.app import hosted
from cadence_serve.client import Client, connect
from cadence_serve.server import address_of, listen
from cadence_serve.service import until
from cadence_serve.settings import Settings
from tests.plan.models import compiled
from tests.runtime.talk import CODE, SPEC
from tests.serve.conftest import Running, alone, get, refused, samples, serving, session_on, speak


def test_a_session_hears_what_it_hears_alone(talk: Plan, talk_file: Path) -> None:
    pushes = [(2, 1), (1, 2), (0, 0), (3, 4), (1, 5)]

    async def go() -> None:
        async with serving(talk_file) as running, session_on(running, seed=7) as client:
            assert client.enabled == ("speak", "turn")
            heard = []
            for count, salt in pushes:
                if count:
                    heard.append(await speak(client, count, salt))
                    assert client.lateness_ms is not None
                else:
                    await client.reset()
            assert heard == alone(talk, 7, pushes)
            await client.seed(3)
            await client.close()
            assert await until(lambda: running.service.streams == set(), 5)

    asyncio.run(go())


def test_many_clients_hear_what_each_hears_alone(talk: Plan, talk_file: Path) -> None:
    """With clients among them that leave without a word, in the middle of a push."""
    choose = random.Random(5)  # noqa: S311
    plans = [[(choose.randint(0, 3), choose.randint(0, 99)) for _ in range(10)] for _ in range(6)]

    async def stream(running: Running, who: int) -> list[bytes]:
        async with session_on(running, seed=who) as client:
            heard = []
            for count, salt in plans[who]:
                if count:
                    heard.append(await speak(client, count, salt))
                else:
                    await client.reset()
            return heard

    async def leaver(running: Running) -> None:
        for _ in range(5):
            async with session_on(running) as client:
                push = asyncio.ensure_future(speak(client, 3, 1))
                await asyncio.sleep(0)
                client.socket.transport.abort()
                await asyncio.gather(push, return_exceptions=True)

    async def go() -> None:
        async with serving(talk_file, lanes=2, client_sessions=99) as running:
            *heard, _ = await asyncio.gather(*(stream(running, who) for who in range(6)), leaver(running))
            assert heard == [alone(talk, who, plan) for who, plan in enumerate(plans)]
            assert await until(
                lambda: running.service.executor is not None and not running.service.executor.sessions, 5
            )

    asyncio.run(go())


PUSH = {"type": "push", "id": 5, "event": "speak"}
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "sing"}, "CAD7071", "'sing'"),
    ({"id": 1}, "CAD7071", "None"),
    ({"type": "reset", "id": [1]}, "CAD7071", "[1]"),
    ({"type": "reset", "then": 1}, "CAD7071", "`then`"),
    ({"type": "open"}, "CAD7073", "another"),
    ({"type": "seed", "seed": "x"}, "CAD7059", "'x'"),
    ({**PUSH, "event": 3}, "CAD7071", "3"),
    ({**PUSH, "event": "sing"}, "CAD7001", "sing"),
    ({**PUSH, "values": [1]}, "CAD7071", "[1]"),
    ({**PUSH, "values": {"n": 1.5}}, "CAD7071", "{'n': 1.5}"),
    ({**PUSH, "values": {"borrow": 1}}, "CAD7071", "`borrow`"),
    ({**PUSH, "values": {"z": 1}}, "CAD7056", "unknown `z`; without `x`"),
    ({**PUSH, "deadline_ms": 0}, "CAD7071", "0"),
    ({**PUSH, "deadline_ms": True}, "CAD7071", "True"),
]


@pytest.fixture(scope="module")
def loop_and_server(talk_file: Path) -> Any:
    """One server for all wrong messages: none may harm the next."""
    with asyncio.Runner() as runner:
        context = serving(talk_file)
        running = runner.run(context.__aenter__())
        yield runner, running
        runner.run(context.__aexit__(None, None, None))


@pytest.mark.parametrize(("fields", "code", "got"), WRONG, ids=[str(row[0]) for row in WRONG])
def test_what_is_wrong_gets_one_typed_error_and_changes_nothing(
    loop_and_server: Any, talk: Plan, fields: dict[str, Any], code: str, got: str
) -> None:
    runner, running = loop_and_server

    async def go() -> None:
        async with session_on(running, seed=1) as client:
            heard = [await speak(client, 1, 0)]
            await client.socket.send(json.dumps(fields))
            error = await refused(client.receive())
            assert (error.code, error.got, error.ended) == (code, got, False)
            heard.append(await speak(client, 2, 1))
            assert heard == alone(talk, 1, [(1, 0), (2, 1)])

    runner.run(go())


@pytest.mark.parametrize("body", ["{", b"\xff\xff\xff\xff", b"", "[]", "null", b"\0\0\0\0"])
def test_what_is_no_message_at_all_too(loop_and_server: Any, body: str | bytes) -> None:
    runner, running = loop_and_server

    async def go() -> None:
        async with session_on(running) as client:
            await client.socket.send(body)
            assert (await refused(client.receive())).code == "CAD7071"
            await speak(client, 1, 0)

    runner.run(go())


def test_a_wrong_shape_and_a_wrong_dtype_are_told(loop_and_server: Any) -> None:
    runner, running = loop_and_server

    async def go() -> None:
        async with session_on(running) as client:
            assert (await refused(client.push("speak", x=np.zeros((1, 1, 5), np.float32)))).code == "CAD7051"
            assert (await refused(client.push("speak", x=samples(1, 0).astype("float64")))).code == "CAD7055"
            assert (await refused(client.open(late="never"))).code == "CAD7073"
            await speak(client, 1, 0)

    runner.run(go())


def test_without_a_session_there_is_nothing_to_push_to(loop_and_server: Any) -> None:
    runner, running = loop_and_server

    async def go() -> None:
        async with connect(running.address) as client:
            assert (await refused(client.open(late="never"))).code == "CAD7071"
            assert (await refused(client.open(seed=2**65))).code == "CAD7059"
            error = await refused(client.reset())
            assert str(error) == (
                'CAD7073: no session is open\n  expected: one\n  got:      none\n  hint:     send {"type": "open"}'
            )
            await client.open()
            await speak(client, 1, 0)

    runner.run(go())


async def end_of(client: Client) -> tuple[str, bool, int]:
    """Return code and `ended` of the server's last error, and the code it closes with."""
    error = await refused(client.receive())
    with pytest.raises(ConnectionClosed) as closed:
        await client.socket.recv()
    assert closed.value.rcvd is not None
    return error.code, error.ended, closed.value.rcvd.code


def test_messages_and_clients_have_limits(talk_file: Path) -> None:
    async def go() -> None:
        async with serving(talk_file, idle_s=0.2) as running, session_on(running) as client:
            assert await end_of(client) == ("CAD7075", True, 1008)
        async with serving(talk_file, max_message_bytes=2000, client_sessions=2) as running:
            async with session_on(running) as first, session_on(running) as second:
                async with connect(running.address) as third:
                    assert await end_of(third) == ("CAD7074", True, 1013)
                await first.socket.send("x" * 2001)
                assert await end_of(first) == ("CAD7072", True, 1009)
                await speak(second, 1, 0)
            assert await until(lambda: not running.service.streams, 5)
            async with session_on(running) as client:
                await client.socket.send(b"x" * 5000)  # more than is ever read
                with pytest.raises(ConnectionClosed):
                    await client.socket.recv()

    asyncio.run(go())


def test_sessions_beyond_the_capacity_are_refused_with_the_figures(talk_file: Path) -> None:
    async def go() -> None:
        async with serving(talk_file, overcommit=False, ahead_s=1.0) as running, connect(running.address) as client:
            error = await refused(client.open())
            assert error.code == "CAD7060"
            assert "0 by time" in str(error.expected)

    asyncio.run(go())


def test_a_token_is_asked_for(talk_file: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("correct-horse-battery")

    async def go() -> None:
        async with serving(talk_file, token_file=str(tmp_path / "token")) as running:
            for token in (None, "wrong-horse-battery"):
                with pytest.raises(InvalidStatus) as caught:
                    async with connect(running.address, token=token):
                        pass
                assert caught.value.response.status_code == 401
                assert json.loads(caught.value.response.body or b"")["code"] == "CAD7077"
            async with session_on(running, token="correct-horse-battery") as client:  # noqa: S106
                await speak(client, 1, 0)
            assert (await get(running, "/metrics"))[0] == 401
            assert (await get(running, "/metrics", Authorization="Bearer correct-horse-battery"))[0] == 200
            assert (await get(running, "/health"))[0] == 200

    asyncio.run(go())


def test_pages_of_other_origins_are_not_let_in(talk_file: Path) -> None:
    async def go() -> None:
        async with serving(talk_file, origins=("https://good",)) as running:
            status, body = await get(running, "/metrics", Origin="https://bad")
            assert (status, json.loads(body)["code"]) == (403, "CAD7078")
            assert (await get(running, "/metrics", Origin="https://good"))[0] == 200
            status, body = await get(running, "/metrics", Host="bad.example:8712")
            assert (status, json.loads(body)["code"]) == (403, "CAD7079")
            assert (await get(running, "/metrics", Host="[::1]:8712"))[0] == 200

    asyncio.run(go())


def test_a_client_that_does_not_read_is_left_and_others_are_served(talk: Plan, talk_file: Path) -> None:
    async def go() -> None:
        async with serving(talk_file, send_s=0.2) as running, session_on(running, seed=2) as other:
            async with session_on(running) as slow:
                slow.socket.transport.pause_reading()
                stream = next(each for each in running.service.streams if each is not stream_of(running, other))
                await fill(stream)
                assert await until(lambda: len(running.server.server_state.connections) == 1, 20)
                slow.socket.transport.abort()
            assert await until(lambda: stream not in running.service.streams, 10)
            assert [await speak(other, 2, 1)] == alone(talk, 2, [(2, 1)])

    asyncio.run(go())


def stream_of(running: Running, client: Client) -> Any:
    """Return the server's end of a client that opened first."""
    return min(running.service.streams, key=lambda each: each._session.rank)  # type: ignore[attr-defined]


async def fill(stream: Any) -> None:
    """Send to a client that does not read until the server gives it up."""
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect):
        for _ in range(1000):
            await stream._send({"type": "frame"}, {"y": np.zeros(1 << 20, np.uint8)})


def test_a_push_that_torch_refuses_ends_the_session_and_the_client_may_open_another(talk_file: Path) -> None:
    async def go() -> None:
        async with serving(talk_file) as running, session_on(running) as client:
            plant(running, DeviceError("CAD8010", "planted"))
            error = await refused(speak(client, 1, 0))
            assert (error.code, error.ended) == ("CAD8010", True)
            assert (await refused(client.reset())).code == "CAD7073"
            await client.open()
            await speak(client, 1, 0)

    asyncio.run(go())


def plant(running: Running, error: BaseException) -> None:
    """Let the next capture fail."""
    assert running.service.executor is not None
    player = running.service.executor._lanes[0].plan._player
    run = player.run

    def failing(capture: int, generator: Any) -> Any:
        player.run = run  # type: ignore[method-assign]
        raise error

    player.run = failing  # type: ignore[method-assign]


def test_a_failed_device_is_told_to_all_and_shows_in_health(talk_file: Path) -> None:
    async def go() -> None:
        async with serving(talk_file) as running, session_on(running) as one, session_on(running) as other:
            plant(running, DeviceError("CAD8001", "the CUDA driver refused `cuGraphLaunch`"))
            assert (await refused(speak(one, 1, 0))).code == "CAD8001"
            assert (await refused(speak(other, 1, 0))).code == "CAD8020"
            assert await get(running, "/health") == (503, '{"status":"failed"}')
            async with connect(running.address) as third:
                assert await end_of(third) == ("CAD7076", True, 1013)

    asyncio.run(go())


def test_a_plan_without_turns_has_none_to_begin(tmp_path: Path) -> None:
    spec, code = SPEC.replace("  turn: {reset: true}\n", ""), CODE
    write_plan(tmp_path / "talk.cpu.plan", compiled(tmp_path, spec, code)[1].plan)

    async def go() -> None:
        async with serving(tmp_path / "talk.cpu.plan") as running, session_on(running) as client:
            assert str(await refused(client.reset())) == (
                "CAD7080: the plan has no event that resets and takes nothing\n"
                "  expected: such an event\n"
                "  got:      none\n"
                "  hint:     push the event that begins a turn"
            )
            await speak(client, 1, 0)

    asyncio.run(go())


def test_a_fault_of_the_server_ends_one_stream(talk_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with serving(talk_file) as running, session_on(running) as one, session_on(running) as other:
            plant(running, ZeroDivisionError("planted"))
            await one.socket.send(json.dumps({"type": "reset"}))
            assert await end_of(one) == ("CAD7083", True, 1011)
            await speak(other, 1, 0)

    asyncio.run(go())


def test_health_and_metrics(talk_file: Path) -> None:
    async def go() -> None:
        async with serving(talk_file) as running, session_on(running) as client, session_on(running) as other:
            await speak(client, 2, 1)
            await speak(client, 2, 1)
            await speak(other, 1, 1)
            await refused(client.push("speak", x=samples(4, 0)))
            assert await get(running, "/health") == (200, '{"status":"ready"}')
            text = (await get(running, "/metrics"))[1]
            for line in (
                'cadence_pushes_total{event="speak",shapes="1x2x4"} 2.0',
                'cadence_failed_pushes_total{code="CAD7004"} 1.0',
                'cadence_lateness_seconds_count{event="speak",shapes="1x1x4"} 1.0',
                "cadence_sessions 2.0",
                "cadence_switches_total 2.0",
                f'cadence_bytes{{part="slabs"}} {2.0 * state_bytes(running)}',
            ):
                assert line in text.splitlines()
            assert 'shapes="1x4x4"' not in text  # no client makes labels

    asyncio.run(go())


def state_bytes(running: Running) -> int:
    assert running.service.executor is not None
    return next(each.size_bytes for each in running.service.executor.plan.sections if each.name == "state")


def test_draining_lets_open_sessions_end_and_takes_no_new_ones(talk: Plan, talk_file: Path) -> None:
    async def go() -> None:
        async with serving(talk_file, drain_s=20.0) as running, session_on(running, seed=1) as client:
            running.server.handle_exit(15, None)
            assert await until(lambda: running.service.status == "draining", 5)
            assert (await get(running, "/health")) == (503, '{"status":"draining"}')
            async with connect(running.address) as late:
                assert await end_of(late) == ("CAD7076", True, 1013)
            assert [await speak(client, 2, 1)] == alone(talk, 1, [(2, 1)])
            await client.close()
            assert await until(lambda: running.server.should_exit, 5)

    asyncio.run(go())


def test_draining_ends_those_that_stay(talk_file: Path) -> None:
    async def go() -> None:
        async with serving(talk_file, drain_s=0.1) as running, session_on(running) as client:
            running.server.handle_exit(15, None)
            assert await end_of(client) == ("CAD7076", True, 1001)

    asyncio.run(go())


def test_another_host_runs_the_application(talk: Plan, talk_file: Path) -> None:
    """As Ray Serve does: ready once its startup is over, and closed behind its end."""

    async def go() -> None:
        settings = Settings(str(talk_file), port=0, lanes=1)
        with listen(settings) as listening:
            server = uvicorn.Server(uvicorn.Config(hosted(settings), lifespan="on", log_level="error"))
            running = asyncio.create_task(server.serve([listening]))
            assert await until(lambda: server.started, 30)
            async with connect(address_of(settings, listening)) as client:
                await client.open(seed=2)
                assert [await speak(client, 2, 1)] == alone(talk, 2, [(2, 1)])
            server.should_exit = True
            await running

    asyncio.run(go())
