"""The routes: health, metrics, and the stream of a session; who may use which."""

import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Lifespan
from starlette.websockets import WebSocket

from cadence_runtime.errors import SessionError
from cadence_serve.service import Service
from cadence_serve.settings import Settings, is_loopback
from cadence_serve.stream import ClientStream
from cadence_serve.wire import error_fields

PATH = "/v1/stream"


def app_of(service: Service, lifespan: Lifespan[Starlette] | None = None) -> Starlette:
    """Return the application of a service; without a `lifespan`, whoever runs it loads and closes the service."""

    async def health(request: Request) -> Response:
        status = service.status
        return JSONResponse({"status": status}, 200 if status == "ready" else 503)

    async def metrics(request: Request) -> Response:
        if (error := unwelcome(service, request)) is not None:
            return _denied(error)
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def stream(socket: WebSocket) -> None:
        if (error := unwelcome(service, socket)) is not None:
            await socket.send_denial_response(_denied(error))
            return
        await ClientStream(service, socket).serve()

    routes = [Route("/health", health), Route("/metrics", metrics), WebSocketRoute(PATH, stream)]
    return Starlette(routes=routes, lifespan=lifespan)


def hosted(settings: Settings) -> Starlette:
    """Return an application with a service of its own, for a host that runs such: the plan is loaded before the host's
    startup is over, and given back behind its end."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await service.load()
        try:
            yield
        finally:
            await service.close()

    return app_of(service, lifespan)


def unwelcome(service: Service, connection: HTTPConnection) -> SessionError | None:
    """Return why a connection is not let in: CAD7077 without the token, CAD7078 from a page of another origin, which a
    browser would let reach this machine, CAD7079 for a name that such a page has led here."""
    origin = connection.headers.get("origin")
    if origin is not None and origin not in service.settings.origins:
        hint = "start the server with `--origin`"
        expected = ", ".join(service.settings.origins) or "no browser"
        return SessionError("CAD7078", "pages of this origin are not let in", expected=expected, got=origin, hint=hint)
    if service.token is not None:
        given = connection.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {service.token}".encode()):
            return SessionError(
                "CAD7077",
                "the server's token is needed",
                expected="a header `Authorization: Bearer TOKEN`",
                got="another token" if given else "none",
            )
    elif not is_loopback(connection.url.hostname or ""):
        got = connection.url.hostname or "none"
        return SessionError("CAD7079", "this machine has another name", expected="localhost or its address", got=got)
    return None


def _denied(error: SessionError) -> Response:
    body = json.dumps(error_fields(error, ended=True))
    status = 401 if error.code == "CAD7077" else 403
    return Response(body, status, media_type="application/json")
