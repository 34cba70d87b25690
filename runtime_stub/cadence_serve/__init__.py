"""A server of live sessions: one plan, a WebSocket for each session. It needs the extra `serve`, and no compiler.

python -m cadence_serve silero-vad.cpu.plan
"""

from collections.abc import Callable

from cadence_runtime.errors import UsageError
from cadence_serve.settings import Settings

__all__ = ["Settings", "start"]


def start(settings: Settings, tell: Callable[[str], None]) -> None:
    """Serve a plan until a signal ends it; `tell` hears the address once the server listens.

    Raises CadenceError where the plan does not load, UsageError for settings that make no sense, and CAD9713 without
    the extra `serve`.
    """
    try:
        from cadence_serve.server import serve
    except ModuleNotFoundError as error:
        raise UsageError(
            "CAD9713",
            "the packages of the server are not installed",
            expected="the extra `serve`",
            got=f"no module `{error.name}`",
            hint="pip install 'cadence-runtime[serve]'",
        ) from None
    serve(settings, tell)
