"""An explanation for people: one screen with what matters, then the details.

Plain ASCII, so that it reads the same in any terminal, log or e-mail.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from io import StringIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cadencec.explain.explanation import Explanation, Push, RegionLine, start_text
from cadencec.timeline import StageKey
from cadencec.timeline.levers import Lever

_WIDTH = 110
_TRAILING = re.compile(r"(?:\s|\x1b\[[0-9;]*m)+$")


def render(explanation: Explanation, width: int = _WIDTH) -> str:
    """Return the text of an explanation, with ANSI colours, at most `width` columns wide."""
    out = StringIO()
    console = Console(
        file=out, width=width, force_terminal=True, color_system="standard", highlight=False, soft_wrap=False
    )
    for part in (_head, _problem, _regions, _stages, _path, _notes, _next, _events, _graph):
        part(explanation, console)
    return "\n".join(_TRAILING.sub(_codes_only, line) for line in out.getvalue().splitlines())


def _codes_only(match: re.Match[str]) -> str:
    """Drop the spaces at the end of a line, and keep the colour codes among them."""
    return "".join(match[0].split())


def _title(console: Console, title: str, rest: str = "") -> None:
    console.print()
    console.print(Text.assemble((title, "bold"), f"  {rest}" if rest else ""))


def _table(console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Padding(table, (0, 0, 0, 2)))


# The first screen.


def _head(explanation: Explanation, console: Console) -> None:
    console.print(Text.assemble((explanation.model, "bold"), f"  {explanation.spec}"))
    clocks = ", ".join(f"{name} {rate_text(rate)}" for name, rate in explanation.clocks) or "none"
    parts = [f"clocks: {clocks}"]
    if explanation.cadence_s is not None:
        parts.append(f"cadence: {seconds_text(explanation.cadence_s)}")
    if explanation.horizon is not None:
        parts.append(f"horizon: {explanation.horizon}")
    console.print(Text("; ".join(parts)))
    if explanation.configurations is not None:
        console.print(
            Text(
                f"{counted(explanation.configurations, 'configuration')}, {explanation.at_rest} of them at rest, "
                f"{counted(explanation.transitions or 0, 'push', 'pushes')}: closed, every shape is known"
            )
        )


def _problem(explanation: Explanation, console: Console) -> None:
    if explanation.problem is not None:
        console.print()
        proven = explanation.problem.code == "CAD2101"
        title = "unbounded" if proven else "not proven to be bounded"
        console.print(Text(f"{title}: no largest size can be planned", "bold red"))
        console.print(Text(f"{explanation.problem}"), soft_wrap=True)


def _regions(explanation: Explanation, console: Console) -> None:
    known = any(region.stock_bytes is not None for region in explanation.regions)
    total = f"{size_text(explanation.size.size_bytes)} in all" if explanation.size else ""
    _title(console, "regions", total)
    columns = ["region", "clock", "start", "retention", "largest", "demand", *(["stock"] if known else [])]
    _table(
        console,
        columns,
        (_region(region, known) for region in explanation.regions),
        ("start", "largest", "demand", "stock"),
    )


def _region(region: RegionLine, known: bool) -> list[str]:
    stock = [size_text(region.stock_bytes) if region.stock_bytes is not None else "?"] if known else []
    bounded = region.length is not None and region.size_bytes is not None
    return [
        region.name,
        region.clock or "-",
        start_text(region.start) if None in region.shape or region.start < 0 else "-",
        region.retention,
        ("-" if None not in region.shape else str(region.length)) if bounded else "?",
        size_text(region.size_bytes or 0) if bounded else "?",
        *stock,
    ]


def _stages(explanation: Explanation, console: Console) -> None:
    total = counted(explanation.size.keys, "key") if explanation.size else ""
    _title(console, "stages", total)
    rows = (
        [
            stage.name,
            "?" if stage.keys is None else str(stage.keys),
            f"x {stage.repeat[1]} ({stage.repeat[0]})" if stage.repeat else "",
            ", ".join([*stage.reads, *stage.args]) or "nothing",
        ]
        for stage in explanation.stages
    )
    _table(console, ["stage", "keys", "repeats", "its key is made of"], rows, ("keys",))


def _path(explanation: Explanation, console: Console) -> None:
    if explanation.path is None:
        if explanation.problem is None:
            _title(console, "steady cycle", "none: every session ends, or returns to its start by a reset")
        return
    path = explanation.path
    lasts = f"{seconds_text(path.seconds)} a round" if path.seconds else ""
    _title(console, "steady cycle", lasts)
    moving = moving_regions(explanation)
    entry, round_ = collapsed(path.entry, moving), collapsed(path.round, moving)
    rows = [[f"{'once' if part is entry else 'for ever'}", *row] for part in (entry, round_) for row in part]
    _table(console, ["", "push", "runs"], rows)


def moving_regions(explanation: Explanation) -> dict[str, tuple[int, ...]]:
    """Return for each stage which of the regions it reads have a length worth showing."""
    moving = {region.name for region in explanation.regions if None in region.shape}
    return {
        stage.name: tuple(i for i, name in enumerate(stage.reads) if name in moving) for stage in explanation.stages
    }


def collapsed(pushes: Sequence[Push], moving: Mapping[str, tuple[int, ...]]) -> list[list[str]]:
    """Return (push, runs) rows, equal neighbours in one; a long middle is left out."""
    rows: list[tuple[str, str, int]] = []
    for push in pushes:
        name = " ".join([push.event, *push.choices])
        runs = ", ".join(_run(key, moving[key.stage]) for key in push.keys) or "nothing"
        if rows and rows[-1][:2] == (name, runs):
            rows[-1] = (name, runs, rows[-1][2] + 1)
        else:
            rows.append((name, runs, 1))
    shown = [[f"{name} x {count}" if count > 1 else name, runs] for name, runs, count in rows]
    return shown if len(shown) <= 8 else [*shown[:4], [f"({len(shown) - 7} more)", ""], *shown[-3:]]


def _run(key: StageKey, moving: tuple[int, ...]) -> str:
    parts = [str(value) for value in key.args]
    if moving:
        parts.append("at " + "/".join(start_text(key.lengths[i]) for i in moving))
    return f"{key.stage}({' '.join(parts)})"


def _notes(explanation: Explanation, console: Console) -> None:
    if explanation.notes:
        _title(console, "worth a look")
    for note in explanation.notes:
        console.print(Padding(Text(f"{note.code}: {note.what} ({note.at})"), (0, 0, 0, 2)))
        if note.hint:
            console.print(Padding(Text(f"hint: {note.hint}"), (0, 0, 0, 4)))


def _next(explanation: Explanation, console: Console) -> None:
    _title(console, "what to do next")
    for line in next_steps(explanation):
        console.print(Padding(Text(line), (0, 0, 0, 2)))


def next_steps(explanation: Explanation) -> list[str]:
    """Return what a user may do now: the edits that save most, then the next command."""
    lines = [_lever(explanation, lever) for lever in explanation.levers]
    if explanation.problem is not None:
        if not explanation.levers:
            return ["bound what grows, then explain again"]
        name, value = explanation.levers[0].edit.split(": ")
        return [*lines, f"try one: cadencec explain {explanation.spec} --set {name}='{value}'"]
    return [*lines, f"compile it: cadencec compile {explanation.spec}"]


def _lever(explanation: Explanation, lever: Lever) -> str:
    if explanation.size is None:
        return f"{lever.edit}: {counted(lever.size.keys, 'key')}, {size_text(lever.size.size_bytes)}"
    keys = f"keys {explanation.size.keys} -> {lever.size.keys}" if lever.size.keys != explanation.size.keys else ""
    old, new = explanation.size.size_bytes, lever.size.size_bytes
    room = f"{size_text(old)} -> {size_text(new)}" if old != new else ""
    inexact = "" if lever.exact else " (changes what the model hears)"
    return f"{lever.edit}: {', '.join(filter(None, (keys, room)))}{inexact}"


# The details.


def _events(explanation: Explanation, console: Console) -> None:
    _title(console, "events")
    rows = (
        [
            event.name,
            "internal" if event.internal else "?" if event.pushes is None else counted(event.pushes, "push", "pushes"),
            "; ".join(filter(None, [event.when or "", *event.choices])) or "always",
            ", ".join([*event.runs, *(["reset"] if event.resets else [])]) or "-",
        ]
        for event in explanation.events
    )
    _table(console, ["event", "may happen", "when", "runs"], rows)


def _graph(explanation: Explanation, console: Console) -> None:
    _title(console, "who reads and writes what")
    rows = (
        [
            region.name,
            f"{region.dtype} [{', '.join('t' if size is None else str(size) for size in region.shape)}]",
            ", ".join(region.read_by) or "-",
            ", ".join(region.written_by) or "-",
        ]
        for region in explanation.regions
    )
    _table(console, ["region", "leaf", "read by", "written by"], rows)
    for stage in explanation.stages:
        if stage.after:
            console.print(Padding(Text(f"{stage.name} takes tensors from {', '.join(stage.after)}"), (0, 0, 0, 2)))


# Words.


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def size_text(count: int) -> str:
    """Return a number of bytes for people: three digits and a unit of thousands."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{count} B" if units[0] == "B" else f"{value:.3g} {units[0]}"


def rate_text(rate_hz: Fraction) -> str:
    """Return a rate as a spec writes it."""
    kilo = rate_hz / 1000
    exact = rate_hz.denominator == 1 and kilo >= 1 and (kilo * 1000).denominator == 1
    return f"{float(kilo):g} kHz" if exact else f"{_number(rate_hz)} Hz"


def seconds_text(seconds: Fraction) -> str:
    """Return a time as a spec writes it."""
    return f"{_number(seconds * 1000)} ms" if seconds < 1 else f"{_number(seconds)} s"


def _number(value: Fraction) -> str:
    plain = f"{float(value):g}"
    return plain if Fraction(plain) == value else str(value)
