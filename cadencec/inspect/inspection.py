"""A plan file boiled down to what people ask of it."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cadence_runtime.cuda.compatibility import executable_bytes, graph_bytes, kernels_bytes
from cadence_runtime.cuda.needs import Needs
from cadence_runtime.errors import raise_all
from cadence_runtime.format.file import CODECS
from cadence_runtime.format.outline import Outline, read_outline
from cadence_runtime.format.plan import Leaf, Plan, Weight
from cadence_runtime.format.tape import ITEM_BYTES
from cadence_runtime.format.templates import node_counts, relocation_counts
from cadence_runtime.host.program import Region
from cadence_runtime.zstd import decompress


@dataclass(frozen=True, slots=True)
class FileSection:
    """A section of the file: `stored_bytes` of it stand there, `raw_bytes` once decoded."""

    name: str
    offset: int
    stored_bytes: int
    raw_bytes: int
    codec: str


@dataclass(frozen=True, slots=True)
class ArenaSection:
    """A section of the arena; `gap_bytes` is how far it is above what no packing can go below."""

    name: str
    offset: int
    size_bytes: int
    lower_bound_bytes: int
    gap_bytes: int
    method: str


@dataclass(frozen=True, slots=True)
class RegionDemand:
    """A region: its longest length at rest in ticks of its clock (-1: always absent), and the bytes of its slots, which
    are as long as it ever gets."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    clock: str | None
    retention: str
    longest: int
    leaves: int
    demand_bytes: int


@dataclass(frozen=True, slots=True)
class StageSummary:
    """A stage: captures (one a key), distinct tapes, ops or graph nodes of the longest, and the most scratch that one
    of its captures takes (of a CPU plan; in a CUDA plan all captures share one section)."""

    name: str
    keys: int
    tapes: int
    longest: int
    scratch_bytes: int


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights that tapes read: `file` names the safetensors file of those that are not embedded."""

    count: int
    total_bytes: int
    embedded: int
    embedded_bytes: int
    file: str | None


@dataclass(frozen=True, slots=True)
class Image:
    """A kernel image of a CUDA plan, and whose it is as far as the compiler could tell."""

    sha256: str
    library: str
    size_bytes: int
    kernels: int


@dataclass(frozen=True, slots=True)
class Cuda:
    """The CUDA part: nodes and relocations counted over all graphs, and the nodes of each capture. The device memory
    that a load takes is predicted: the arena, and an executable for each graph that runs, `largest_executable_bytes` at
    least, and `kernels_bytes` for local memory and code (None where the plan does not say); the context comes on top. A
    budget of executables holds `push_budget_bytes` at least, and `ahead_budget_bytes` for a session that finds all that
    it can push next."""

    compute_capability: str
    driver: int
    images: tuple[Image, ...]
    kernels: int
    graph_nodes: int
    nodes_by_capture: tuple[int, ...]
    relocations: int
    snapshots: int
    snapshot_bytes: int
    largest_executable_bytes: int
    executables_bytes: int
    push_budget_bytes: int
    ahead_budget_bytes: int
    kernels_bytes: int | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything that `cadencec inspect` shows."""

    path: str
    format: str
    size_bytes: int
    model: str
    target: str
    entry: str
    compiler: str
    spec_sha256: str
    random_weights: bool
    sections: tuple[FileSection, ...]
    arena: tuple[ArenaSection, ...]
    arena_bytes: int
    regions: tuple[RegionDemand, ...]
    counters: tuple[str, ...]
    queues: tuple[str, ...]
    events: tuple[str, ...]
    stages: tuple[StageSummary, ...]
    nodes: int
    transitions: int
    captures: int
    tapes: int
    weights: Weights
    constants: int
    constants_bytes: int
    blobs: int
    blobs_bytes: int
    fidelity: tuple[tuple[str, int], ...]
    constant_outputs: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    numerics: tuple[tuple[str, str], ...]
    cuda: Cuda | None


def inspect(path: str | os.PathLike[str]) -> Inspection:
    """Read, validate and describe a plan file, all but the content of its blobs. Raises UsageError CAD92xx or
    PlanError."""
    outline = read_outline(path, decompress=decompress)
    raise_all(outline.faults)
    return inspect_plan(outline, os.fspath(path))


def inspect_plan(file: Outline, path: str) -> Inspection:
    """Describe a plan that was read."""
    plan, provenance, fidelity = file.plan, file.plan.provenance, file.plan.fidelity
    return Inspection(
        path=path,
        format=file.version,
        size_bytes=file.size_bytes,
        model=provenance.model,
        target=plan.target,
        entry=provenance.entry,
        compiler=provenance.compiler,
        spec_sha256=provenance.spec_sha256,
        random_weights=provenance.random_weights,
        sections=tuple(_file_sections(file)),
        arena=tuple(_arena(plan)),
        arena_bytes=max(section.offset + section.size_bytes for section in plan.sections),
        regions=tuple(_regions(plan)),
        counters=tuple(counter.name for counter in plan.program.counters),
        queues=tuple(queue.name for queue in plan.program.queues),
        events=tuple(event.name for event in plan.program.events if not event.internal),
        stages=tuple(_stages(plan)),
        nodes=len(plan.nodes),
        transitions=len(plan.transitions),
        captures=len(plan.captures),
        tapes=len(plan.tapes),
        weights=_weights(plan),
        constants=len(plan.constants),
        constants_bytes=sum(constant.size_bytes for constant in plan.constants),
        blobs=len(plan.blobs),
        blobs_bytes=sum(map(len, plan.blobs)),
        fidelity=(
            ("tapes", fidelity.tapes),
            ("values_per_tape", fidelity.values_per_tape),
            ("walk_events", fidelity.walk_events),
            ("outputs_compared", fidelity.outputs_compared),
        ),
        constant_outputs=fidelity.constant_outputs,
        environment=provenance.environment,
        numerics=provenance.numerics,
        cuda=_cuda(plan),
    )


def to_json(inspection: Inspection) -> dict[str, Any]:
    """Return the inspection as JSON, without the path; pairs become objects."""
    body = asdict(inspection)
    del body["path"]
    for name in ("fidelity", "environment", "numerics"):
        body[name] = dict(body[name])
    return body


def _file_sections(file: Outline) -> Iterator[FileSection]:
    for name, extent in file.extents:
        yield FileSection(name, extent.offset, extent.size_bytes, extent.raw_bytes, CODECS[extent.codec])


def _arena(plan: Plan) -> Iterator[ArenaSection]:
    for section in plan.sections:
        gap = section.size_bytes - section.lower_bound
        yield ArenaSection(section.name, section.offset, section.size_bytes, section.lower_bound, gap, section.method)


def _regions(plan: Plan) -> Iterator[RegionDemand]:
    for index, region in enumerate(plan.program.regions):
        leaves = [leaf for leaf in plan.leaves if leaf.owner == region.name]
        longest = max((node.configuration.lengths[index] for node in plan.nodes), default=-1)
        yield _region(region, leaves, longest)


def _region(region: Region, leaves: Sequence[Leaf], longest: int) -> RegionDemand:
    kind, cap = region.retention.kind, region.retention.cap
    return RegionDemand(
        name=region.name,
        dtype=region.dtype,
        shape=region.shape,
        clock=region.clock,
        retention=kind if cap is None else f"{kind}({cap})",
        longest=longest,
        leaves=len(leaves),
        demand_bytes=sum(leaf.slot_bytes for leaf in leaves),
    )


def _stages(plan: Plan) -> Iterator[StageSummary]:
    for name in dict.fromkeys(capture.key.stage for capture in plan.captures):
        numbers = [i for i, capture in enumerate(plan.captures) if capture.key.stage == name]
        tapes = {plan.captures[number].tape for number in numbers}
        part = plan.cuda
        if part is not None:
            nodes = node_counts(part.graphs)
            longest = max(nodes[part.launch(number).graph] for number in numbers)
        else:
            longest = max(len(plan.tapes[tape].ops) for tape in tapes)
        yield StageSummary(name, len(numbers), len(tapes), longest, max(_scratch(plan, n) for n in numbers))


def _scratch(plan: Plan, capture: int) -> int:
    found = plan.captures[capture]
    storages = plan.tapes[found.tape].storages
    return max((offset + storages[index].size_bytes for index, offset in found.scratch), default=0)


def _weights(plan: Plan) -> Weights:
    embedded = [weight for weight in plan.weights if weight.blob is not None]
    return Weights(
        count=len(plan.weights),
        total_bytes=sum(map(_weight_bytes, plan.weights)),
        embedded=len(embedded),
        embedded_bytes=sum(map(_weight_bytes, embedded)),
        file=plan.weights_file,
    )


def _weight_bytes(weight: Weight) -> int:
    size_bytes = ITEM_BYTES[weight.dtype]
    for size in weight.sizes:
        size_bytes *= size
    return size_bytes


def _cuda(plan: Plan) -> Cuda | None:
    part = plan.cuda
    if part is None:
        return None
    needs, nodes = Needs(plan, part), node_counts(part.graphs)
    images = (
        Image(image.sha256, image.library, len(plan.blobs[image.blob]), sum(k.image == i for k in part.kernels))
        for i, image in enumerate(part.images)
    )
    return Cuda(
        compute_capability=f"{part.compute_capability[0]}.{part.compute_capability[1]}",
        driver=part.driver,
        images=tuple(images),
        kernels=len(part.kernels),
        graph_nodes=sum(nodes),
        nodes_by_capture=tuple(nodes[part.launch(number).graph] for number in range(len(plan.captures))),
        relocations=sum(relocation_counts(part.graphs)),
        snapshots=len(part.snapshots),
        snapshot_bytes=sum(snapshot.size_bytes for snapshot in part.snapshots),
        largest_executable_bytes=max(graph_bytes(part), default=0),
        executables_bytes=executable_bytes(part),
        push_budget_bytes=needs.push_bytes,
        ahead_budget_bytes=needs.ahead_bytes,
        kernels_bytes=kernels_bytes(plan),
    )
