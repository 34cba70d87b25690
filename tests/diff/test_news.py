"""Whatever the bits of a plan may depend on is news, and so is what it claims of itself."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cadence_runtime.format.cuda import CudaPart, Edge, Launch, Move
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.writer import write_plan
from cadence_runtime.zstd import compress
from cadencec.diff import Request, diff_files
from tests.format.plans import cuda_example, example

CPU, CUDA = example(), cuda_example()
assert CUDA.cuda is not None
PART: CudaPart = CUDA.cuda


def changed(before: Plan, after: Plan, tmp_path: Path) -> list[str]:
    """Return the parts with changes."""
    for name, plan in (("a", before), ("b", after)):
        write_plan(tmp_path / f"{name}.plan", plan, compress=compress)
    report = diff_files(Request(str(tmp_path / "a.plan"), str(tmp_path / "b.plan")))
    assert report.diff.faults == ()
    return [part.name for part in report.diff.parts if part.changes]


def cuda(**fields: Any) -> Plan:
    return replace(CUDA, cuda=replace(PART, **fields))


def graph(number: int, **fields: Any) -> Plan:
    graphs = list(PART.graphs)
    graphs[number] = replace(graphs[number], **fields)
    return cuda(graphs=tuple(graphs))


def section(plan: Plan, name: str, **fields: Any) -> Plan:
    return replace(plan, sections=tuple(replace(s, **fields) if s.name == name else s for s in plan.sections))


def other_constant(plan: Plan) -> Plan:
    constant = plan.constants[0]
    data = b"\x07" * constant.size_bytes
    name = hashlib.sha256(data).hexdigest()
    blobs = tuple(data if number == constant.blob else blob for number, blob in enumerate(plan.blobs))

    def renamed(storages: Any) -> Any:
        return tuple(replace(s, name=name) if s.name == constant.sha256 else s for s in storages)

    tapes = tuple(replace(tape, storages=renamed(tape.storages)) for tape in plan.tapes)
    return replace(plan, constants=(replace(constant, sha256=name),), blobs=blobs, tapes=tapes)


def origin(**fields: Any) -> Plan:
    return replace(CPU, provenance=replace(CPU.provenance, **fields))


def fidelity(**fields: Any) -> Plan:
    return replace(CPU, fidelity=replace(CPU.fidelity, **fields))


def another_memset() -> Plan:
    first, second, *rest = PART.graphs[0].nodes
    return graph(0, nodes=(first, second._replace(value=1), *rest))


def another_operand() -> Plan:
    *rest, last = PART.graphs[0].relocations
    return graph(0, relocations=(*rest, last._replace(offset=last.offset + 256)))


def another_generator() -> Plan:
    philox = PART.graphs[1].philox
    assert philox is not None
    return graph(1, philox=(philox[0], philox[1] + 4))


def moved_rows(before: bool) -> Plan:
    """The plan with a section of rows, and copies around its first graph."""
    *common, library = CUDA.sections
    rows = replace(library, name="rows", offset=library.offset, size_bytes=512)
    state = next(section for section in common if section.name == "state").offset
    there, back = (Move(rows.offset, state, 16),), (Move(state, rows.offset, 16),)
    launches = (Launch(0, there, back if before else ()), *map(Launch, range(1, len(PART.graphs))))
    sections = (*common, rows, replace(library, offset=library.offset + 512))
    return replace(cuda(launches=launches), sections=sections)


def another_kernel(**fields: Any) -> Plan:
    return cuda(kernels=(replace(PART.kernels[0], **fields), *PART.kernels[1:]))


NEWS: dict[str, tuple[Plan, Callable[[], Plan], list[str]]] = {
    "constant, cpu": (CPU, lambda: other_constant(CPU), ["captures", "constants"]),
    "constant, cuda": (CUDA, lambda: other_constant(CUDA), ["constants"]),
    "scratch": (CPU, lambda: section(CPU, "scratch", size_bytes=1 << 20), ["arena"]),
    "packing": (CPU, lambda: section(CPU, "scratch", method="search"), ["arena"]),
    "edge": (CUDA, lambda: graph(0, edges=(Edge(0, 1),)), ["captures"]),
    "operand": (CUDA, another_operand, ["captures"]),
    "rows that come back": (moved_rows(True), lambda: moved_rows(False), ["captures"]),
    "memset": (CUDA, another_memset, ["captures"]),
    "generator": (CUDA, another_generator, ["captures"]),
    "no generator": (CUDA, lambda: graph(1, philox=None), ["captures"]),
    "device variable": (
        CUDA, lambda: cuda(globals=(replace(PART.globals[0], data=b"\x09" + bytes(15)),)), ["library"],
    ),
    "snapshot": (CUDA, lambda: cuda(snapshots=()), ["library"]),
    "compute capability": (CUDA, lambda: cuda(compute_capability=(10, 0)), ["environment"]),
    "driver": (CUDA, lambda: cuda(driver=PART.driver + 10), ["environment"]),
    "kernel attribute": (CUDA, lambda: another_kernel(attributes=((8, 98304),)), ["images"]),
    "random weights": (CPU, lambda: origin(random_weights=not CPU.provenance.random_weights), ["provenance"]),
    "environment": (CPU, lambda: origin(environment=(("torch", "9"),)), ["environment"]),
    "spec": (CPU, lambda: origin(spec_sha256="1" * 64), ["provenance"]),
    "walk": (CPU, lambda: fidelity(walk_events=0, outputs_compared=0), ["provenance"]),
    "constant outputs": (CPU, lambda: fidelity(constant_outputs=("y",)), ["provenance"]),
    "weights file": (example(embed=False), lambda: replace(example(embed=False), weights_file="o"), ["provenance"]),
}  # fmt: skip


@pytest.mark.parametrize("name", NEWS)
def test_news(name: str, tmp_path: Path) -> None:
    before, after, parts = NEWS[name]
    assert changed(before, after(), tmp_path) == parts


def test_the_place_of_everything_is_not(tmp_path: Path) -> None:
    assert changed(CUDA, cuda(base=PART.base + (1 << 30)), tmp_path) == []
