"""The verbs. Each imports what it needs when it runs, so that `cadencec --help` answers at once."""

from typing import Any

import click

from cadencec import __version__
from cadencec.cli import streams
from cadencec.cli.live import bench_verb, serve_verb
from cadencec.cli.options import (
    COMPLETE,
    FILE,
    PROGRAM,
    App,
    examples,
    file_option,
    json_option,
    policy_option,
    set_option,
    weights_option,
)

TARGETS = click.Choice(["cpu", "cuda"])


@click.group(
    cls=App,
    epilog=examples(
        "cadencec compile specs/silero_vad.yaml",
        "cadencec run silero-vad.cpu.plan --input speech.wav -o out.npz",
    ),
)
@click.version_option(__version__, prog_name=PROGRAM)
def app() -> None:
    """Compile the streaming tail of a speech model ahead of time, and replay it bit for bit."""


@app.command(
    "compile",
    epilog=examples(
        "cadencec compile specs/silero_vad.yaml",
        "cadencec compile model.yaml -o out/model.cpu.plan --embed-weights --set P=300",
    ),
)
@click.argument("spec", type=FILE)
@file_option("-o", "--output", metavar="PLAN", text="Where the plan goes; NAME.TARGET.plan in this folder by default.")
@click.option("--target", type=TARGETS, default="cpu", show_default=True, help="What the plan runs on.")
@click.option("--embed-weights", is_flag=True, help="Put the weights into the plan instead of a file beside it.")
@click.option("--dump-tape", is_flag=True, help="List the ops of every tape, before the summary.")
@click.option("--without", multiple=True, metavar="PASS", help="Leave out an optimisation. Repeatable.")
@file_option(
    "--cache",
    metavar="DIR",
    text="Where captures for CUDA are kept, to go on after a stop; .cadencec-cache beside the plan by default.",
)
@click.option("--no-cache", is_flag=True, help="Keep no captures.")
@file_option(
    "--sign", metavar="KEY", text="Sign plan and weights with this private key (PEM), as `cadencec sign` does."
)
@set_option
@json_option
def compile_verb(as_json: bool, dump_tape: bool, **given: Any) -> None:
    """Trace a model at every reachable shape and write its plan.

    The weights go into a safetensors file beside the plan, unless the spec names a release's file.
    """
    from cadencec.compile import Request, compile_file, render, to_json

    with streams.progress() as progress:
        report = compile_file(Request(dump_tape=dump_tape, **given), progress)
    for warning in report.compiled.warnings:
        streams.say(f"warning: {warning}")
    if as_json:
        streams.put_json("cadencec.compile/1", to_json(report, tapes=dump_tape))
    else:
        streams.put(render(report, tapes=dump_tape))


@app.command("explain", epilog=examples("cadencec explain specs/silero_vad.yaml", "cadencec explain model.yaml --json"))
@click.argument("spec", type=FILE)
@click.option(
    "--limit", type=click.IntRange(min=1), default=200_000, show_default=True, help="Configurations to look at."
)
@set_option
@json_option
def explain_verb(spec: str, overrides: dict[str, str], limit: int, as_json: bool) -> int:
    """Show what follows from a clock spec alone.

    Clocks, regions, reachable shapes, demand of memory, and what bounds it. No model is run. A spec that grows without
    bound is explained too, with exit code 2.
    """
    from cadencec.explain import exit_code, explain, render, to_json
    from cadencec.spec import load_spec

    found = explain(load_spec(spec, overrides), limit=limit)
    if as_json:
        streams.put_json("cadencec.explain/1", to_json(found))
    else:
        streams.put(render(found))
    return exit_code(found)


@app.command(
    "init",
    epilog=examples(
        "cadencec init ./model.py:build",
        "cadencec init package.module:build --push 'x:float32[1,512]' --cadence '32 ms' -o model.yaml",
        "cadencec init ./model.py:build --push 'tok:int64[1,8]<32 last=false' --push 'tok:int64[1,3]<32 last=true'",
    ),
)
@click.argument("entry")
@file_option("-o", "--output", metavar="SPEC", text="Where the spec goes; the module's name with .yaml by default.")
@click.option(
    "--push",
    "pushes",
    multiple=True,
    metavar="INPUTS",
    help="What one push brings: NAME:DTYPE[SIZES], with <UPPER for integers, or NAME=VALUE. Repeatable.",
)
@click.option("--name", metavar="NAME", help="The model's name; the module's by default.")
@click.option("--cadence", metavar="TIME", help="The time between two pushes, such as '80 ms'.")
@click.option("--horizon", type=click.IntRange(min=1), metavar="EVENTS", help="The pushes of a session at most.")
@click.option("--steps", type=click.IntRange(min=4), default=400, show_default=True,
              help="Pushes after which what still grows counts as growing for ever.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace a spec that is there.")
@set_option
@json_option
def init_verb(as_json: bool, **given: Any) -> None:
    """Watch a module run and write a first clock spec.

    Inputs come from the module's `example_inputs`, or from --push. What was seen stands in comments; what could not be
    seen is a question there. The spec is compiled before it is written, so a model that no plan can serve is told as
    `compile` would tell it.
    """
    from cadencec.init import Request, init_file, render, to_json

    with streams.progress() as progress:
        report = init_file(Request(**given), progress)
    if as_json:
        streams.put_json("cadencec.init/1", to_json(report))
    else:
        streams.put(render(report))


@app.command("inspect", epilog=examples("cadencec inspect model.cpu.plan", "cadencec inspect model.cpu.plan --json"))
@click.argument("plan", type=FILE)
@click.option("--sbom", is_flag=True, help="Print the bill of materials instead: CycloneDX 1.6, as JSON.")
@json_option
def inspect_verb(plan: str, sbom: bool, as_json: bool) -> None:
    """Show what is in a plan; needs neither torch nor a device."""
    from cadencec.inspect import bill_of_file, inspect, render, to_json

    if sbom:
        streams.put_object(bill_of_file(plan))
        return
    found = inspect(plan)
    if as_json:
        streams.put_json("cadencec.inspect/1", to_json(found))
    else:
        streams.put(render(found))


@app.command("check", epilog=examples("cadencec check model.cpu.plan", "cadencec check model.cpu.plan --full --json"))
@click.argument("plan", type=FILE)
@weights_option
@click.option("--target", type=TARGETS, help="Also require that the plan is for this target.")
@click.option("--full", is_flag=True, help="Read all weights and compare their digests.")
@policy_option
@json_option
def check_verb(as_json: bool, **given: Any) -> int:
    """Tell whether a plan would load here, and why not.

    The verdict is ok, suboptimal or incompatible (exit code 3), with every reason.
    """
    from cadencec.check import check_file, exit_code, render, to_json

    found = check_file(**given)
    if as_json:
        streams.put_json("cadencec.check/1", to_json(found))
    else:
        streams.put(render(found))
    return exit_code(found)


@app.command(
    "sign",
    epilog=examples(
        "cadencec sign model.cpu.plan --key release.key.pem",
        "cadencec sign model.cpu.plan --key signer.key.pem --certificate signer.pem",
    ),
)
@click.argument("plan", type=FILE)
@file_option("--key", metavar="FILE", text="A private key on P-256, P-384 or P-521 (PEM).", required=True)
@file_option("--certificate", metavar="FILE", text="The key's certificate, then those between it and a root (PEM).")
@weights_option
@json_option
def sign_verb(plan: str, key: str, certificate: str | None, weights: str | None, as_json: bool) -> None:
    """Sign a plan together with its weights file.

    The signature goes to PLAN.sig, in the format of model-signing. `--policy` checks it.
    """
    from cadencec.sign import Signer, render, sign_file, to_json

    signed = sign_file(plan, Signer(key, certificate), weights=weights)
    if as_json:
        streams.put_json("cadencec.sign/1", to_json(signed))
    else:
        streams.put(render(signed))


@app.command(
    "verify",
    epilog=examples(
        "cadencec verify model.cpu.plan --spec model.yaml",
        "cadencec verify model.cpu.plan --spec model.yaml --events 500",
    ),
)
@click.argument("plan", type=FILE)
@file_option("--spec", metavar="SPEC", text="The clock spec that the plan was compiled from.", required=True)
@weights_option
@policy_option
@click.option("--stages", is_flag=True, help="Hold the plan to the adapter's own stages instead of its released loop.")
@click.option("--events", type=click.IntRange(min=1), default=200, show_default=True, help="Events over all walks.")
@click.option(
    "--walks", type=click.IntRange(min=1), default=4, show_default=True, help="Walks, each with two sessions."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Length of the two long sessions by the clocks; 0 for none.",
)
@click.option("--turns", type=click.IntRange(min=1), default=3, show_default=True, help="Their turns at least.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the walks and their inputs.")
@set_option
@json_option
def verify_verb(as_json: bool, **given: Any) -> int:
    """Replay a plan beside the stock model, bit for bit.

    Random walks over the timeline, each with two sessions, then two long sessions of several turns. The stock model is
    the released streaming loop where the adapter has it, else (or with --stages) the model's own stages. Exit code 3
    where a bit differs.
    """
    from cadencec.verify import render, to_json, verify_file

    with streams.progress() as progress:
        found = verify_file(progress=progress, **given)
    if as_json:
        streams.put_json("cadencec.verify/1", to_json(found))
    else:
        streams.put(render(found))
    return found.exit_code


@app.command(
    "run",
    epilog=examples(
        "cadencec run silero-vad.cpu.plan --input speech.wav -o speech.json",
        "cadencec run model.cpu.plan --input feed.npz -o out.npz --seed 7",
    ),
)
@click.argument("plan", type=FILE)
@click.option(
    "--input",
    "source",
    required=True,
    type=FILE,
    metavar="FILE",
    help="A .wav recording, or an .npz of arrays by input name.",
)
@file_option("-o", "--output", "target", metavar="FILE", text="An .npz, .json or .wav file.", required=True)
@weights_option
@policy_option
@click.option("--event", metavar="EVENT", help="The event that takes the recording, where there are several.")
@click.option("--tail", type=click.Choice(["pad", "drop", "refuse"]), default="pad", show_default=True,
              help="What becomes of samples that do not fill the last chunk.")  # fmt: skip
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    metavar="HZ",
    help="Sample rate of a .wav output, where the plan's clocks do not tell.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the session's random draws.")
@json_option
def run_verb(as_json: bool, **given: Any) -> None:
    """Drive a session of a plan from a file.

    A recording gives one event for each chunk of samples. An .npz file has an array for each input, with a row for each
    push that takes it (or `NAME.0`, `NAME.1`, ... by push), and `events`, the event of each push.
    """
    from cadencec.run import Request, render, run_file, to_json

    with streams.progress() as progress:
        summary = run_file(Request(**given), progress)
    for note in summary.notes:
        streams.say(f"note: {note}")
    if as_json:
        streams.put_json("cadencec.run-summary/1", to_json(summary))
    else:
        streams.put(render(summary))


@app.command(
    "diff",
    epilog=examples(
        "cadencec diff released.cpu.plan model.cpu.plan",
        "cadencec diff released.cpu.plan model.cpu.plan --fail-on memory,+5% --fail-on changed:numerics",
        "cadencec diff old.yaml new.yaml --exit-code",
    ),
)
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@click.option("--offsets", is_flag=True, help="Also tell where things moved to.")
@click.option("--full", is_flag=True, help="List every change.")
@click.option("--any-model", is_flag=True, help="Compare plans of different models.")
@click.option("--exit-code", is_flag=True, help="Exit with 3 where they differ.")
@click.option("--fail-on", multiple=True, metavar="GATE",
              help="Exit with 3 where MEASURE,+5% grows more, or changed:PART changes. Repeatable.")  # fmt: skip
@file_option("--html", metavar="FILE", text="Also write a page of it.")
@json_option
def diff_verb(as_json: bool, **given: Any) -> int:
    """Tell what changed between two plans, or two specs.

    Facts go by the names of the spec, so what only moved is no news. Needs neither torch nor a device.
    """
    from cadencec.diff import Request, diff_files, exit_code, render, to_json

    request = Request(**given)
    found = diff_files(request)
    if as_json:
        streams.put_json("cadencec.diff/1", to_json(found.diff, found.verdicts))
    else:
        streams.put(render(found.diff, found.verdicts, full=request.full))
    return exit_code(found, request)


@app.command(
    "report",
    epilog=examples(
        "cadencec report model.cpu.plan",
        "cadencec report model.cpu.plan -o report.html --spec model.yaml",
        "cadencec report model.cpu.plan --c-header -o model.h",
    ),
)
@click.argument("plan", type=FILE)
@file_option("-o", "--output", metavar="FILE", text="What to write; the plan's name with .html or .h by default.")
@file_option("--spec", metavar="SPEC", text="The plan's clock spec, for what the released code allocates.")
@click.option("--c-header", is_flag=True, help="Write a C header with the plan's interface instead.")
@json_option
def report_verb(as_json: bool, **given: Any) -> None:
    """Write a page with pictures of a plan, or a C header.

    The page needs nothing else: no network, no script. Needs neither torch nor a device.
    """
    from cadencec.report import Request, report_file

    written = report_file(Request(**given))
    if as_json:
        streams.put_json("cadencec.report/1", {"path": written.path, "size_bytes": written.size_bytes})
    else:
        streams.put(f"{written.path}: {written.size_bytes:,} bytes")


app.add_command(bench_verb)
app.add_command(serve_verb)


@app.command("schema", epilog=examples("cadencec schema > clock-spec.schema.json"))
def schema_verb() -> None:
    """Print the JSON Schema of clock specs, for editors."""
    from cadencec.spec import json_schema

    streams.put_object(json_schema())


@app.command(
    "completion",
    epilog=examples(
        'eval "$(cadencec completion bash)"',
        "cadencec completion fish > ~/.config/fish/completions/cadencec.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_verb(shell: str) -> None:
    """Print what makes a shell complete verbs, options and files."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is not None:  # always: it is one of the choices
        streams.put(found(app, {}, PROGRAM, COMPLETE).source())
