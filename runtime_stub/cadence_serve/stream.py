"""One client's connection: its messages in, frames out, and one session at a time.

What is wrong with a message is answered by an error message and changes nothing. Where the session has ended with it,
the error says so, and the client may open another.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from cadence_runtime import Outputs
from cadence_runtime.errors import CadenceError, DeviceError, SessionError
from cadence_runtime.live import LATE, LiveSession
from cadence_serve.ranges import Ranges
from cadence_serve.service import Service
from cadence_serve.wire import RESERVED, Array, Message, decode, encode, error_fields, malformed

NORMAL, POLICY, TOO_LARGE, FAILED, GOING_AWAY, LATER = 1000, 1008, 1009, 1011, 1001, 1013
"""WebSocket close codes."""

log = logging.getLogger("cadence_serve")


class ClientStream:
    """Serves one WebSocket until it is closed by either side."""

    def __init__(self, service: Service, socket: WebSocket) -> None:
        self._service, self._socket = service, socket
        self._session: LiveSession | None = None
        self._ranges: Ranges | None = None
        self._number: object = None
        self._answers: Mapping[str, Callable[[Mapping[str, Any], Message], Coroutine[Any, Any, None]]] = {
            "open": self._open,
            "push": self._push,
            "reset": self._reset,
            "seed": self._seed,
            "close": self._leave,
        }

    async def serve(self) -> None:
        """Take messages until the client leaves, is idle for too long, or cannot be served any more."""
        client = self._socket.client.host if self._socket.client else ""
        await self._socket.accept()
        try:
            try:
                self._service.join(client, self)
                self._service.ready()
            except SessionError as error:
                await self._refuse(error, LATER)
                return
            while self._socket.application_state is WebSocketState.CONNECTED:
                await self._take()
        except WebSocketDisconnect:
            pass
        finally:
            self._service.leave(client, self)
            self._end_session()

    async def end(self, error: CadenceError) -> None:
        """Tell the client why its session ends, and close."""
        self._end_session()
        self._number = None
        with suppress(WebSocketDisconnect):  # it has left meanwhile
            await self._refuse(error, GOING_AWAY)

    async def _take(self) -> None:
        """Take one message and answer it."""
        settings = self._service.settings
        try:
            async with asyncio.timeout(settings.idle_s):
                raw = await self._socket.receive()
        except TimeoutError:
            got = f"none for {settings.idle_s:g} s"
            error = SessionError("CAD7075", "the client was idle for too long", expected="a message", got=got)
            await self._refuse(error, POLICY)
            return
        if raw["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(raw.get("code", NORMAL))
        body: str | bytes = raw["text"] if raw.get("bytes") is None else raw["bytes"]
        size = len(body) if isinstance(body, bytes) else len(body.encode())
        if size > settings.max_message_bytes:
            expected, got = f"at most {settings.max_message_bytes} bytes", f"{size}"
            await self._refuse(
                SessionError("CAD7072", "the message is too large", expected=expected, got=got), TOO_LARGE
            )
            return
        await self._answer(body)

    async def _answer(self, body: str | bytes) -> None:
        self._number = None
        try:
            message = decode(body)
            self._number = _number_of(message.fields)
            kind = message.fields.get("type")
            answer = self._answers.get(kind) if isinstance(kind, str) else None
            if answer is None:
                raise malformed(f"a type: {', '.join(self._answers)}", repr(kind)[:80])
            await answer(message.fields, message)
        except DeviceError as error:
            self._end_session()
            await self._send(error_fields(error, self._number, ended=True))
            if self._service.status == "failed":
                await self._close(FAILED)
        except CadenceError as error:
            if error.code == "CAD7053":
                self._end_session()
            await self._send(error_fields(error, self._number, ended=error.code == "CAD7053"))
        except (WebSocketDisconnect, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("a message could not be answered")
            what = "the server could not answer this message"
            await self._refuse(SessionError("CAD7083", what, hint="the server's log has the cause"), FAILED)

    async def _open(self, fields: Mapping[str, Any], message: Message) -> None:
        if self._session is not None:
            raise SessionError("CAD7073", "a session is open already", expected="one a connection", got="another")
        _only(fields, "seed", "late")
        executor, settings = self._service.ready(), self._service.settings
        late = fields.get("late", "late")
        if late not in LATE:
            raise malformed(f"late: {', '.join(LATE)}", repr(late)[:80])
        self._session = await executor.session(fields.get("seed", 0), late=late, overcommit=settings.overcommit)
        self._ranges = Ranges(executor.plan.program)
        cadence_s = executor.plan.program.cadence_s
        cadence_ms = None if cadence_s is None else float(cadence_s * 1000)
        await self._send({"type": "opened", "id": self._number, "cadence_ms": cadence_ms, "enabled": self._enabled()})

    async def _push(self, fields: Mapping[str, Any], message: Message) -> None:
        session = self._open_session()
        _only(fields, "event", "values", "deadline_ms")
        event, values, deadline_ms = fields.get("event"), fields.get("values", {}), fields.get("deadline_ms")
        if not isinstance(event, str):
            raise malformed("the name of an event", repr(event)[:80])
        if not isinstance(values, dict) or not all(isinstance(v, int | str) for v in values.values()):
            raise malformed("values: integers, bools and strings by name", repr(values)[:80])
        if deadline_ms is not None and not (type(deadline_ms) in (int, float) and deadline_ms > 0):
            raise malformed("deadline_ms: a number above 0", repr(deadline_ms)[:80])
        if names := RESERVED & (values.keys() | message.tensors.keys()):
            raise malformed("inputs of the event", f"`{min(names)}`")
        if self._ranges is not None:
            self._ranges.check(event, message.tensors)
        seconds = None if deadline_ms is None else deadline_ms / 1000
        outputs = await session.push(event, deadline_s=seconds, **{**values, **message.tensors})
        await self._put(outputs, session)

    async def _reset(self, fields: Mapping[str, Any], message: Message) -> None:
        session = self._open_session()
        _only(fields)
        event = session.turn
        if event is None:
            raise SessionError(
                "CAD7080",
                "the plan has no event that resets and takes nothing",
                expected="such an event",
                got="none",
                hint="push the event that begins a turn",
            )
        await self._put(await session.push(event), session)

    async def _seed(self, fields: Mapping[str, Any], message: Message) -> None:
        session = self._open_session()
        _only(fields, "seed")
        await session.seed(fields.get("seed"))  # type: ignore[arg-type]
        await self._done(0, None)

    async def _leave(self, fields: Mapping[str, Any], message: Message) -> None:
        self._end_session()
        await self._send({"type": "closed", "id": self._number})
        await self._close(NORMAL)

    async def _put(self, outputs: Outputs, session: LiveSession) -> None:
        """Send the outputs of a push, a frame for each of its events, and that it is done."""
        for index, record in enumerate(outputs):
            tensors = {name: _host(value) for name, value in record.outputs.items() if hasattr(value, "shape")}
            values = {name: value for name, value in record.outputs.items() if name not in tensors}
            fields = {"type": "frame", "id": self._number, "index": index, "event": record.event, "values": values}
            await self._send(fields, tensors)
        await self._done(len(outputs), session.report.lateness_s if session.report else None)

    async def _done(self, frames: int, lateness_s: float | None) -> None:
        finite = lateness_s is not None and lateness_s > float("-inf")
        lateness_ms = round(lateness_s * 1000, 3) if finite and lateness_s is not None else None
        fields = {"type": "done", "id": self._number, "frames": frames, "lateness_ms": lateness_ms}
        await self._send({**fields, "enabled": self._enabled()})

    async def _send(self, fields: Mapping[str, Any], tensors: Mapping[str, Array] | None = None) -> None:
        """Send a message. A client that does not read for too long is left: its session ends."""
        body = encode(fields, tensors)
        if self._socket.application_state is not WebSocketState.CONNECTED:
            raise WebSocketDisconnect(GOING_AWAY)
        try:
            async with asyncio.timeout(self._service.settings.send_s):
                if isinstance(body, str):
                    await self._socket.send_text(body)
                else:
                    await self._socket.send_bytes(body)
        except TimeoutError:
            log.info("a client does not read, and is left")
            raise WebSocketDisconnect(POLICY) from None
        except RuntimeError:  # the framework's word for a connection that its protocol has closed meanwhile
            raise WebSocketDisconnect(GOING_AWAY) from None

    async def _close(self, code: int) -> None:
        with suppress(RuntimeError):  # closed meanwhile
            await self._socket.close(code)

    async def _refuse(self, error: CadenceError, code: int) -> None:
        await self._send(error_fields(error, self._number, ended=True))
        await self._close(code)

    def _open_session(self) -> LiveSession:
        if self._session is None:
            raise SessionError(
                "CAD7073", "no session is open", expected="one", got="none", hint='send {"type": "open"}'
            )
        return self._session

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _enabled(self) -> list[str]:
        return list(self._session.enabled) if self._session is not None else []


def _number_of(fields: Mapping[str, Any]) -> object:
    number = fields.get("id")
    if number is not None and type(number) not in (int, str):
        raise malformed("an id: an integer or a string", json.dumps(number)[:80])
    return number


def _only(fields: Mapping[str, Any], *names: str) -> None:
    """Raise CAD7071 for a field that the message does not have."""
    unknown = sorted(fields.keys() - {"type", "id", *names})
    if unknown:
        raise malformed(f"of fields only {', '.join(('id', *names))}", f"`{unknown[0][:80]}`")


def _host(value: Any) -> Array:
    """Return an output of either player as a numpy array. Raises SessionError CAD7081 where numpy cannot hold it."""
    try:
        return np.asarray(value)
    except TypeError:
        dtype = str(getattr(value, "dtype", type(value).__name__))
        raise SessionError("CAD7081", "an output cannot be sent", expected="a dtype of numpy", got=dtype) from None
