"""Prints what `cadencec bench --json` wrote down as one Markdown table, with the conditions of each file under it.

    python scripts/bench_table.py step_audio2.json minicpm_o45.json mimi.json qwen3_omni_code2wav.json

Files come in the order of the arguments; the same files give the same text.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

SCHEMA = "cadencec.bench/2"
GAP = "-"
HEAD = (
    "model",
    "side",
    "steady push, ms (p5 to p95)",
    "times the replay",
    "session, s",
    "times the replay",
    "first output, s",
    "allocator, MB",
    "driver, MB",
    "host, MB",
)


def table(benches: Sequence[dict[str, Any]]) -> str:
    """Return the table of some comparisons and, as a list, the conditions of each."""
    rows = [HEAD, ("---",) * len(HEAD), *(row for bench in benches for row in rows_of(bench))]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *map(conditions, benches)])


def rows_of(bench: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the row of each side of a comparison, the replay first."""
    for number, side in enumerate((bench["replay"], *bench["stock"])):
        times = side.get("times_the_replay")
        memory = side["memory"]
        yield (
            "" if number else title(bench),
            side["variant"] + ", no numerics" * (not side["numerics"]),
            "; ".join(_push(event, one) for event, one in side["steady"].items()) or GAP,
            "; ".join(f"{one['median']:.2f}" for one in times["steady"].values()) or GAP if times else GAP,
            f"{median(side['session_s']):.3f}",
            f"{times['session']['median']:.2f}" if times else GAP,
            f"{median(side['first_output_s']):.2f}" if side["first_output_s"] else GAP,
            *(_mb(memory[name]) for name in ("allocator_bytes", "device_bytes", "host_bytes")),
        )


def conditions(bench: dict[str, Any]) -> str:
    """Return what a comparison was made of, as an item of a list."""
    session, plan = bench["session"], bench["plan"]
    verdict = f"{bench['outputs']:,} outputs bit-identical to {bench['loop']} (`{bench['compared_with']}`)"
    if not bench["equal"]:
        verdict = f"**differs** from {bench['loop']} (`{bench['compared_with']}`): {bench['difference']}"
    numerics = ", ".join(f"{name} {value}" for name, value in bench["numerics"].items()) or "none"
    versions = ", ".join(f"{name} {version}" for name, version in bench["versions"].items())
    nodes = "" if plan["nodes"] is None else f", {plan['nodes']:,} nodes"
    resident = "" if plan["resident_bytes"] is None else f", {_mb(plan['resident_bytes'])} MB with every key resident"
    return (
        f"* {title(bench)}: {verdict}. Numerics: {numerics}. Plan: {_mb(plan['size_bytes'])} MB with "
        f"{_mb(plan['weights_bytes'] - plan['weights_apart_bytes'])} MB of weights in it and "
        f"{_mb(plan['weights_apart_bytes'])} MB apart, {plan['keys']:,} keys{nodes}; "
        f"{_mb(plan['predicted_bytes'])} MB of memory predicted{resident}. "
        f"Session: {session['seconds']:.1f} s, {session['turns']} turns, {session['pushes']:,} pushes, seed "
        f"{session['seed']}; {bench['rounds']} rounds. {bench['device']}; {versions}; {bench['date']}."
    )


def title(bench: dict[str, Any]) -> str:
    """Return the model's name, and whether its weights are random."""
    return str(bench["model"]) + ", **random weights**" * bool(bench["random_weights"])


def _push(event: str, one: dict[str, Any]) -> str:
    middle, low, high = (one[name] * 1e3 for name in ("median_s", "p5_s", "p95_s"))
    return f"{event} {middle:.3f} ({low:.3f} to {high:.3f})"


def _mb(size_bytes: int | None) -> str:
    if size_bytes is None:
        return GAP
    return f"{size_bytes / 1e6:,.{1 if size_bytes >= 10e6 else 3}f}"


def read(path: str) -> dict[str, Any]:
    """Return a comparison that was written down. Raises ValueError for anything else."""
    found = json.loads(Path(path).read_text())
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"its schema is {schema}, not {SCHEMA}")
    return dict(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table of the files that are named."""
    parser = argparse.ArgumentParser(description="Print files of `cadencec bench --json` as one Markdown table.")
    parser.add_argument("files", nargs="+", metavar="FILE")
    benches = []
    for path in parser.parse_args(arguments).files:
        try:
            benches.append(read(path))
        except (OSError, ValueError) as error:
            parser.error(f"{path}: {error}")
    print(table(benches))


if __name__ == "__main__":
    main()
