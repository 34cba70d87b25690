"""Changes one thing of a golden plan and makes every digest anew, so that what is wrong is that thing alone.

bytes of the file      header(change), extent(name, change)         the header's digest is made anew
bytes of a section     section(name, change), manifest(old, new)    and those of the section
a part of the plan     plan(...), cpu_tape(...), launch(...), ...   and everything that follows from it
"""

import hashlib
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from cadence_runtime.format.blobs import encode_blobs, store
from cadence_runtime.format.cuda import Graph, MemsetNode, Relocation
from cadence_runtime.format.file import HEADER_BYTES, SECTIONS, TABLE_BYTES, Extent, pack_extent, read_table
from cadence_runtime.format.file import header as file_header
from cadence_runtime.format.graphs import encode_graphs
from cadence_runtime.format.manifest import encode_manifest
from cadence_runtime.format.plan import Plan, minor_of
from cadence_runtime.format.reader import read_plan
from cadence_runtime.format.references import blob_digests
from cadence_runtime.format.source import MemorySource
from cadence_runtime.format.tables import encode_nodes, encode_transitions
from cadence_runtime.format.tapes import encode_tapes
from cadence_runtime.format.templates import Family, Graphs, by_template
from cadence_runtime.format.writer import assemble
from cadence_runtime.zstd import decompress

PLANS = Path(__file__).parents[2] / "plans"
Change = Callable[[bytes], bytes]
STEP = 1
"""The capture, tape and graph that the changes below are made to: the first push of a session."""


def attack(hostile: Callable[[], bytes]) -> None:
    """Write a hostile plan to the path that was given on the command line."""
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: python {sys.argv[0]} PLAN")
    Path(sys.argv[1]).write_bytes(hostile())


@cache
def golden(target: str) -> Plan:
    """Return the golden plan of a target."""
    return read_plan(next(PLANS.glob(f"growing-kv-cat.{target}*.plan")), decompress=decompress)


@cache
def digests(target: str) -> tuple[str, ...]:
    return blob_digests(golden(target))


def parts(made: Plan) -> dict[str, bytes]:
    """Return the sections of a plan that nobody validated, all raw."""
    known = golden(made.target)
    table, pieces = encode_blobs(
        made.blobs, digests(made.target) if made.blobs is known.blobs else blob_digests(made), None
    )
    return {
        "manifest": encode_manifest(made),
        "nodes": encode_nodes(made),
        "transitions": encode_transitions(made),
        "tapes": encode_tapes(made.tapes),
        "graphs": encode_graphs(made.cuda),
        "blob-table": table,
        "blobs": b"".join(pieces),
    }


def sealed(sections: dict[str, bytes], minor: int = 0) -> bytes:
    """Return a file of these sections, its digests made anew."""
    *stored, blobs = sections.values()
    return b"".join(assemble([store(data, None) for data in stored], [blobs], minor))


# Bytes of the file.


def unchanged() -> bytes:
    """Return the golden CPU plan, all raw."""
    return sealed(parts(golden("cpu")))


def header(change: Callable[[bytearray], None]) -> bytes:
    """Change the header or the section table."""
    data = bytearray(unchanged())
    change(data)
    table = data[HEADER_BYTES : HEADER_BYTES + TABLE_BYTES]
    data[HEADER_BYTES - 32 : HEADER_BYTES] = hashlib.sha256(data[: HEADER_BYTES - 32] + table).digest()
    return bytes(data)


def extent(name: str, change: Callable[[Extent], Extent]) -> bytes:
    """Change where a section is said to stand."""
    data = unchanged()
    extents = dict(read_table(MemorySource(data)))
    extents[name] = change(extents[name])
    return file_header([extents[each] for each in SECTIONS]) + data[HEADER_BYTES + TABLE_BYTES :]


def blob_row(change: Callable[[Extent], Extent]) -> bytes:
    """Change where the first blob is said to stand."""

    def changed(table: bytes) -> bytes:
        offset, stored, content = (int.from_bytes(table[at : at + 8], "little") for at in (32, 40, 48))
        return table[:32] + pack_extent(change(Extent(offset, stored, content, 0, table[64:96]))) + table[96:]

    return section("blob-table", changed)


# Bytes of a section.


def section(name: str, change: Change, target: str = "cpu") -> bytes:
    """Change a section."""
    found = parts(golden(target))
    found[name] = change(found[name])
    return sealed(found)


def manifest(old: bytes, new: bytes, target: str = "cpu") -> bytes:
    """Change the first place of the manifest where `old` stands."""

    def change(data: bytes) -> bytes:
        assert old in data, old
        return data.replace(old, new, 1)

    return section("manifest", change, target)


def word(name: str, index: int, value: int, target: str = "cpu") -> bytes:
    """Change a 64-bit word of a table."""
    new = value.to_bytes(8, "little", signed=True)
    return section(name, lambda data: data[: 8 * index] + new + data[8 * index + 8 :], target)


# Parts of the plan.


def plan(target: str = "cpu", **changes: Any) -> bytes:
    """Change a field of the plan."""
    made = replace(golden(target), **changes)
    return sealed(parts(made), minor_of(made))


def item(field: str, index: int, **changes: Any) -> bytes:
    """Change an item of a list of the CPU plan."""
    rows = list(getattr(golden("cpu"), field))
    rows[index] = replace(rows[index], **changes)
    return plan(**{field: tuple(rows)})


def program(**changes: Any) -> bytes:
    """Change the host program."""
    return plan(program=replace(golden("cpu").program, **changes))


def event(index: int, **changes: Any) -> bytes:
    """Change an event of the host program."""
    rows = list(golden("cpu").program.events)
    rows[index] = replace(rows[index], **changes)
    return program(events=tuple(rows))


def capture(**changes: Any) -> bytes:
    """Change the capture of the first push."""
    return item("captures", STEP, **changes)


def key(**changes: Any) -> bytes:
    """Change what that capture depends on."""
    return capture(key=replace(golden("cpu").captures[STEP].key, **changes))


def tape(**changes: Any) -> bytes:
    """Change the tape of that capture."""
    return item("tapes", STEP, **changes)


def op(index: int, **changes: Any) -> bytes:
    """Change an op of that tape."""
    ops = list(golden("cpu").tapes[STEP].ops)
    ops[index] = replace(ops[index], **changes)
    return tape(ops=tuple(ops))


def storage(index: int, **changes: Any) -> bytes:
    """Change a storage of that tape."""
    rows = list(golden("cpu").tapes[STEP].storages)
    rows[index] = replace(rows[index], **changes)
    return tape(storages=tuple(rows))


# Parts of the CUDA part.


def cuda(**changes: Any) -> bytes:
    """Change a field of the CUDA part."""
    return plan("cuda", cuda=replace(_part(), **changes))


def cuda_item(field: str, index: int, **changes: Any) -> bytes:
    """Change an item of a list of the CUDA part."""
    rows = list(getattr(_part(), field))
    rows[index] = replace(rows[index], **changes)
    return cuda(**{field: tuple(rows)})


def graph(**changes: Any) -> bytes:
    """Change the graph of the first push."""
    return cuda_item("graphs", STEP, **changes)


def node(index: int, **changes: Any) -> bytes:
    """Change a node of that graph: 0 to 7 are launches, 8 to 10 copies."""
    nodes = list(step_graph().nodes)
    nodes[index] = nodes[index]._replace(**changes)
    return graph(nodes=tuple(nodes))


def fill(offset: int = 0, **changes: Any) -> bytes:
    """Add a fill of 4 bytes at an offset of the arena to that graph, and change it."""
    found, made = step_graph(), MemsetNode(4, 0, 4, 1, 1)
    at = Relocation(len(found.nodes), 0, offset)
    nodes, node_ops = (*found.nodes, made._replace(**changes)), (*found.node_ops, 0)
    return graph(nodes=nodes, node_ops=node_ops, relocations=(*found.relocations, at))


def relocation(index: int, **changes: Any) -> bytes:
    """Change a relocation of that graph."""
    rows = list(step_graph().relocations)
    rows[index] = rows[index]._replace(**changes)
    return graph(relocations=tuple(rows))


def copied() -> int:
    """Return which relocation is the destination of the graph's first copy."""
    return next(index for index, entry in enumerate(step_graph().relocations) if entry.node == 8)


def image(change: Change) -> bytes:
    """Change the bytes of the smallest image, and its digests."""
    found = golden("cuda")
    number = min(range(len(_part().images)), key=lambda index: len(found.blobs[_part().images[index].blob]))
    row = _part().images[number]
    blobs = list(found.blobs)
    blobs[row.blob] = change(blobs[row.blob])
    images = list(_part().images)
    images[number] = replace(row, sha256=hashlib.sha256(blobs[row.blob]).hexdigest())
    return plan("cuda", blobs=tuple(blobs), cuda=replace(_part(), images=tuple(images)))


def templates() -> Graphs:
    """Return the graphs of the CUDA plan by template: the last family has the most, and the first has no other."""
    return by_template(_part().graphs)


def family(index: int, change: Callable[[Family], Family]) -> bytes:
    """Change a family of these graphs."""
    graphs = templates()
    families = list(graphs.families)
    families[index] = change(families[index])
    return cuda(graphs=Graphs(graphs.values, tuple(families), graphs.order))


def number(index: int, kind: int, value: int, *, other: bool) -> bytes:
    """Change the first number of a kind of a family, in its first graph or in the first of the others."""

    def changed(found: Family) -> Family:
        first, rows, kinds = found.first[:], found.rows[:], found.template.kinds()
        if other:
            rows[next(at for at, place in enumerate(found.places) if kinds[place] == kind)] = value
        else:
            first[kinds.index(kind)] = value
        return replace(found, first=first, rows=rows)

    return family(index, changed)


def step_graph() -> Graph:
    """Return the graph of the first push, as it is."""
    return _part().graphs[STEP]


def _part() -> Any:
    return golden("cuda").cuda
