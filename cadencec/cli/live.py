"""The verbs of live sessions: `bench` and `serve`."""

from collections.abc import Callable
from typing import Any

import click

from cadencec.cli import streams
from cadencec.cli.options import (
    FILE,
    examples,
    file_option,
    json_option,
    policy_option,
    set_option,
    weights_option,
)
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
    "bench",
    epilog=examples(
        "cadencec bench silero-vad.cpu.plan --spec specs/silero_vad.yaml",
        "cadencec bench model.cpu.plan --spec model.yaml --live --ahead 20 --plot lateness.svg",
        "cadencec bench model.cpu.plan --spec model.yaml --live --sessions 10 --sessions 50",
    ),
)
@click.argument("plan", type=FILE)
@file_option("--spec", metavar="SPEC", text="The clock spec that the plan was compiled from.", required=True)
@weights_option
@policy_option
@click.option("--seconds", type=click.FloatRange(min=0.1), metavar="SECONDS",
              help="Length of a session by the clocks, 60 by default; with --live of a run, 5.")  # fmt: skip
@click.option("--turns", type=click.IntRange(min=1), default=3, show_default=True, help="Turns of a session at least.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True,
              help="Sessions of each side that count, behind one of warm-up.")  # fmt: skip
@click.option("--starts", type=click.IntRange(min=0), default=1, show_default=True,
              help="Fresh processes of each side that show the time to the first output.")  # fmt: skip
@click.option("--stages", is_flag=True, help="Take the adapter's own stages as stock, not its released loop.")
@click.option("--live", is_flag=True, help="Run sessions in real time, each bringing a unit a cadence.")
@click.option("--sessions", type=click.IntRange(min=1), multiple=True, metavar="N",
              help="With --live: run so many; else the most with no unit late are looked for. Repeatable.")  # fmt: skip
@click.option("--ahead", type=click.FloatRange(min=0), default=0.0, show_default=True, metavar="MS",
              help="With --live: milliseconds of each cadence that something else takes first.")  # fmt: skip
@click.option("--lanes", type=click.IntRange(min=0), metavar="COUNT",
              help="With --live: threads of the replay, 0 for the loop's own; else what suits the pushes.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the pushes and their inputs.")
@file_option("--plot", metavar="FILE", text="With --live: also draw lateness over sessions (SVG).")
@set_option
@json_option
def bench_verb(as_json: bool, **given: Any) -> int:
    """Measure the replay of a plan against the stock model.

    Time and memory, each side in a process of its own, in turns, on the same session; outputs are compared bit for bit,
    with exit code 3 where they differ. Stock is the released streaming loop where the adapter has it, in all its
    variants, with the numerics of the spec and without. With --live, N sessions of the stock model, then N of the
    replay, each in real time.
    """
    from cadencec.bench.bench import bench_file, render, to_json
    from cadencec.bench.request import Request

    with streams.progress() as progress:
        found = bench_file(Request(**given), progress)
    if as_json:
        streams.put_json(*to_json(found))
    else:
        streams.put(render(found))
    return found.exit_code


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
