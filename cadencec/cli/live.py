"""The verb of live sessions: `serve`."""

from collections.abc import Callable
from typing import Any

import click

from cadencec.cli import streams
from cadencec.cli.options import FILE, examples, json_option
from cadencec.serve import OPTIONS, Option

Command = Callable[..., Any]


def _server_options(callback: Command) -> Command:
    """Add the options of the server, which has them for its own command line too."""
    for option in reversed(OPTIONS):
        callback = _server_option(option)(callback)
    return callback


def _server_option(option: Option) -> Callable[[Command], Command]:
    if option.kind is bool:
        return click.option(option.flag, is_flag=True, help=option.text)
    kind = FILE if option.metavar == "FILE" else option.kind
    return click.option(option.flag, type=kind, metavar=option.metavar, multiple=option.repeats, help=option.text)


@click.command(
    "serve",
    epilog=examples(
        "cadencec serve silero-vad.cpu.plan",
        "cadencec serve model.cpu.plan --host 0.0.0.0 --token-file token --lanes 2",
    ),
)
@click.argument("plan", type=FILE)
@_server_options
@json_option
def serve_verb(as_json: bool, **given: Any) -> None:
    """Serve live sessions of a plan over WebSockets.

    Prints the address once it listens; /health there says when the plan is ready, /metrics is for Prometheus. On
    SIGTERM it takes no more sessions and ends when those that are open have, or after --drain seconds. Needs the extra
    `serve`.
    """
    from cadencec.serve import settings_of, start

    def tell(address: str) -> None:
        if as_json:
            streams.put_json("cadencec.serve/1", {"address": address})
        else:
            streams.put(address)

    start(settings_of({name: value for name, value in given.items() if value is not None and value is not False}), tell)
