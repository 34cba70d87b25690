"""An inspection for people: what the plan is for, what it holds, and where the bytes are. Plain ASCII."""

import re
from collections.abc import Iterable, Sequence
from io import StringIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cadencec.inspect.inspection import Inspection

WIDTH = 110
_TRAILING = re.compile(r"(?:\s|\x1b\[[0-9;]*m)+$")


def render(found: Inspection, width: int = WIDTH) -> str:
    """Return the text of an inspection, with ANSI colours, at most `width` columns wide."""
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system="standard", highlight=False)
    for part in (_head, _regions, _stages, _arena, _file, _weights, _cuda, _fidelity, _provenance):
        part(found, console)
    return "\n".join(_TRAILING.sub(_codes_only, line) for line in out.getvalue().splitlines())


def bytes_text(count: int) -> str:
    """Return a size with at most one decimal: `17 B`, `4.0 KiB`, `2.1 MiB`."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{count} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


def _codes_only(match: re.Match[str]) -> str:
    """Drop the spaces at the end of a line, and keep the colour codes among them."""
    return "".join(match[0].split())


def _title(console: Console, title: str, rest: str = "") -> None:
    console.print()
    console.print(Text.assemble((title, "bold"), f"  {rest}" if rest else ""))


def _line(console: Console, text: str) -> None:
    console.print(Padding(Text(text), (0, 0, 0, 2)))


def _table(console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Padding(table, (0, 0, 0, 2)))


def _head(found: Inspection, console: Console) -> None:
    console.print(Text.assemble((found.model, "bold"), f"  {found.path}"))
    size = f"{bytes_text(found.size_bytes)}, format {found.format}, by cadencec {found.compiler}"
    _line(console, f"for {found.target}, {size}")
    events = ", ".join(found.events) or "none"
    _line(console, f"events: {events}")
    _line(console, f"{_many(found.nodes, 'configuration')}, {_many(found.transitions, 'transition')}")
    if found.random_weights:
        _line(console, "the weights are random: the plan shows shapes and speed, not speech")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _regions(found: Inspection, console: Console) -> None:
    total = sum(region.demand_bytes for region in found.regions)
    _title(console, "state", f"{bytes_text(total)} a session")
    rows = [
        (
            region.name,
            region.dtype,
            "x".join("t" if size is None else str(size) for size in region.shape) or "scalar",
            region.clock or "",
            region.retention,
            "absent" if region.longest < 0 else str(region.longest),
            bytes_text(region.demand_bytes),
        )
        for region in found.regions
    ]
    _table(
        console, ("region", "dtype", "shape", "clock", "retention", "longest", "demand"), rows, ("longest", "demand")
    )
    for what, names in (("counters", found.counters), ("queues", found.queues)):
        if names:
            _line(console, f"{what}: {', '.join(names)}")


def _stages(found: Inspection, console: Console) -> None:
    _title(console, "stages", f"{_many(found.captures, 'capture')}, {_many(found.tapes, 'tape')}")
    longest = "nodes" if found.cuda else "ops"
    columns = ("stage", "keys", "tapes", longest, "scratch")
    rows = [
        (s.name, f"{s.keys:,}", f"{s.tapes:,}", f"{s.longest:,}", bytes_text(s.scratch_bytes)) for s in found.stages
    ]
    _table(console, columns, rows, columns[1:])


def _arena(found: Inspection, console: Console) -> None:
    _title(console, "arena", bytes_text(found.arena_bytes))
    rows = [
        (a.name, f"{a.offset:,}", f"{a.size_bytes:,}", f"{a.gap_bytes:,}", a.method)
        for a in found.arena
        if a.size_bytes
    ]
    _table(console, ("section", "offset", "bytes", "above bound", "method"), rows, ("offset", "bytes", "above bound"))


def _file(found: Inspection, console: Console) -> None:
    _title(console, "file", bytes_text(found.size_bytes))
    rows = [(s.name, f"{s.stored_bytes:,}", f"{s.raw_bytes:,}", s.codec) for s in found.sections]
    _table(console, ("section", "bytes", "decoded", "codec"), rows, ("bytes", "decoded"))
    _line(console, f"{_many(found.blobs, 'blob')} of {bytes_text(found.blobs_bytes)}")


def _weights(found: Inspection, console: Console) -> None:
    weights = found.weights
    _title(console, "weights", f"{_many(weights.count, 'tensor')}, {bytes_text(weights.total_bytes)}")
    _line(console, f"embedded: {weights.embedded:,}, {bytes_text(weights.embedded_bytes)}")
    if weights.file is not None:
        _line(console, f"from file: {weights.count - weights.embedded:,}, {weights.file}")
    _line(console, f"folded constants: {found.constants:,}, {bytes_text(found.constants_bytes)}")


def _cuda(found: Inspection, console: Console) -> None:
    if found.cuda is None:
        return
    cuda = found.cuda
    driver = f"{cuda.driver // 1000}.{cuda.driver % 1000 // 10}"
    _title(console, "cuda", f"compute capability {cuda.compute_capability}, driver for CUDA {driver} or newer")
    _line(console, f"{_many(cuda.graph_nodes, 'graph node')}, {_many(cuda.relocations, 'relocation')}")
    _line(console, f"library memory: {_many(cuda.snapshots, 'buffer')}, {bytes_text(cuda.snapshot_bytes)}")
    some, every = bytes_text(cuda.largest_executable_bytes), bytes_text(cuda.executables_bytes)
    kernels = "" if cuda.kernels_bytes is None else f"{bytes_text(cuda.kernels_bytes)} of kernels, "
    _line(
        console,
        f"predicted device memory: {bytes_text(found.arena_bytes)} of arena, {kernels}{some} to {every} of executables,"
        " besides the context",
    )
    push, ahead = bytes_text(cuda.push_budget_bytes), bytes_text(cuda.ahead_budget_bytes)
    _line(console, f"budget of executables: at least {push}, for what a session can push next {ahead}")
    libraries = sorted({image.library for image in cuda.images})
    rows = []
    for library in libraries:
        images = [image for image in cuda.images if image.library == library]
        size = sum(image.size_bytes for image in images)
        rows.append((library or "unknown", f"{len(images)}", f"{sum(i.kernels for i in images)}", bytes_text(size)))
    _table(console, ("library", "images", "kernels", "size"), rows, ("images", "kernels", "size"))


def _fidelity(found: Inspection, console: Console) -> None:
    counts = dict(found.fidelity)
    _title(console, "compared with the stock model, bit for bit, before the plan was written")
    values = _many(counts["values_per_tape"], "set")
    _line(console, f"{_many(counts['tapes'], 'tape')} on at least {values} of values each")
    walked = _many(counts["walk_events"], "event")
    _line(console, f"a random walk of {walked}; {_many(counts['outputs_compared'], 'output')} in all")
    for name in found.constant_outputs:
        _line(console, f"output `{name}` had the same bits for all inputs that were tried")


def _provenance(found: Inspection, console: Console) -> None:
    _title(console, "provenance")
    rows = [("entry", found.entry), ("spec sha256", found.spec_sha256)]
    rows += [*found.environment, *found.numerics]
    _table(console, ("what", "value"), rows)
