"""A client, for tests, benchmarks and as an example of the wire.

async with connect("ws://127.0.0.1:8712/v1/stream") as client:
    await client.open(seed=7)
    frames = await client.push("chunk", x=samples)      # [Frame("chunk", {"speech": array}, {})]
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_socket

from cadence_runtime.errors import CadenceError
from cadence_serve.wire import Array, Message, decode, encode


@dataclass(frozen=True, slots=True)
class Frame:
    """The outputs of one event: arrays and other values by name."""

    event: str
    tensors: Mapping[str, Array]
    values: Mapping[str, Any]


class Refused(CadenceError):
    """The server answered with an error; `ended` says that there is no session any more."""

    ended: bool = False


class Client:
    """One connection with one session at a time. Calls are made one after the other."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.enabled: tuple[str, ...] = ()
        self.lateness_ms: float | None = None
        self._numbers = count(1)

    async def open(self, seed: int = 0, late: str = "late") -> None:
        """Open a session. Raises Refused."""
        await self._ask({"type": "open", "seed": seed, "late": late}, "opened")

    async def push(self, event: str, /, *, deadline_ms: float | None = None, **inputs: Any) -> list[Frame]:
        """Let an event happen; arrays are tensors, all else are values. Raises Refused."""
        tensors = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
        values = {name: value for name, value in inputs.items() if name not in tensors}
        fields: dict[str, Any] = {"type": "push", "event": event, "values": values}
        if deadline_ms is not None:
            fields["deadline_ms"] = deadline_ms
        return await self._ask(fields, "done", tensors)

    async def reset(self) -> None:
        """Begin a new turn. Raises Refused."""
        await self._ask({"type": "reset"}, "done")

    async def seed(self, seed: int) -> None:
        """Seed the session's random draws. Raises Refused."""
        await self._ask({"type": "seed", "seed": seed}, "done")

    async def close(self) -> None:
        """End the session and the connection."""
        await self._ask({"type": "close"}, "closed")
        await self.socket.close()

    async def receive(self) -> Message:
        """Return the next message of the server. Raises Refused for an error."""
        message = decode(await self.socket.recv())
        if message.fields.get("type") == "error":
            raise refusal(message.fields)
        return message

    async def _ask(self, fields: dict[str, Any], last: str, tensors: Mapping[str, Array] | None = None) -> list[Frame]:
        number = next(self._numbers)
        await self.socket.send(encode({**fields, "id": number}, tensors))
        frames: list[Frame] = []
        while True:
            message = await self.receive()
            if message.fields["type"] == last:
                self.enabled = tuple(message.fields.get("enabled", ()))
                self.lateness_ms = message.fields.get("lateness_ms")
                return frames
            frames.append(Frame(message.fields["event"], message.tensors, message.fields["values"]))


def refusal(fields: Mapping[str, Any]) -> Refused:
    """Return an error of the server as an exception."""
    parts = {name: fields[name] for name in ("expected", "got", "at", "hint")}
    error = Refused(fields["code"], fields["what"], **parts)
    error.ended = fields["ended"]
    return error


@asynccontextmanager
async def connect(address: str, token: str | None = None) -> AsyncIterator[Client]:
    """Connect to a server's stream."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with connect_socket(address, additional_headers=headers, compression=None, max_size=None) as socket:
        yield Client(socket)
