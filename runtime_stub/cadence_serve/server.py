"""Running a service: the socket, the signals, and a graceful end.

SIGTERM or SIGINT   /health says draining, no new session, open ones go on for `drain_s`, then they are told and ended
once more           everything ends now
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn

from cadence_runtime.errors import UsageError
from cadence_serve.app import PATH, app_of
from cadence_serve.service import Service
from cadence_serve.settings import Settings

SWITCH_S = 0.0005
"""How long a thread may keep Python's lock while others wait: a lane or the loop would wait ten times as long."""

BACKLOG = 128


class Server(uvicorn.Server):
    """Drains its service on the first signal."""

    def __init__(self, service: Service) -> None:
        super().__init__(_config(service))
        self.service = service
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Future[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._draining is not None or self._loop is None:
            self.should_exit = self.force_exit = True
        else:
            self._draining = self._loop.create_future()
            self._loop.call_soon_threadsafe(self._begin_to_drain)

    def _begin_to_drain(self) -> None:
        self._draining = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        await self.service.drain()
        self.should_exit = True

    async def run_until_ended(self, listening: socket.socket) -> None:
        """Serve and load at once; end where loading fails, with its error."""
        self._loop = asyncio.get_running_loop()
        loading = asyncio.create_task(self.service.load())
        loading.add_done_callback(self._loaded)
        try:
            await self.serve([listening])
        finally:
            await asyncio.gather(loading, return_exceptions=True)
            await self.service.close()
        if (error := loading.exception()) is not None:
            raise error

    def _loaded(self, loading: "asyncio.Task[None]") -> None:
        if loading.cancelled() or loading.exception() is not None:
            self.should_exit = True


def serve(settings: Settings, tell: Callable[[str], None]) -> None:
    """Serve a plan until a signal ends it; `tell` hears the address once it listens. Raises CadenceError where the plan
    does not load, and UsageError CAD9711, CAD9712 or CAD9714."""
    service = Service(settings)
    sys.setswitchinterval(SWITCH_S)
    with listen(settings) as listening:
        tell(address_of(settings, listening))
        asyncio.run(Server(service).run_until_ended(listening))


def _config(service: Service) -> uvicorn.Config:
    return uvicorn.Config(
        app_of(service),
        ws="websockets-sansio",
        ws_max_size=2 * service.settings.max_message_bytes,  # beyond it the connection is cut without a word
        ws_per_message_deflate=False,
        log_config=None,
        log_level="error",  # else whoever sends what is no HTTP fills the log
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=5,
    )


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens. Raises UsageError CAD9714."""
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        got = os.strerror(error.errno) if type(error) is OSError and error.errno else str(error)
        at = f"{settings.host}:{settings.port}"
        raise UsageError("CAD9714", "the server cannot listen", expected="a free address", got=got, at=at) from None
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the second frame of a push waits for an echo
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(settings.send_s * 1000))  # who does not read
    return listening


def address_of(settings: Settings, listening: socket.socket) -> str:
    """Return where streams are served."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"ws://{host}:{listening.getsockname()[1]}{PATH}"
