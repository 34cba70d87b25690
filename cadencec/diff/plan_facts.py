"""The facts of a plan file, read without its blobs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from cadence_runtime.format.cuda import CudaPart, Graph, GraphNode, KernelNode
from cadence_runtime.format.file import MAJOR, MINOR
from cadence_runtime.format.outline import Outline, read_outline
from cadence_runtime.format.plan import Capture, Form, Plan, TensorForm
from cadence_runtime.format.tape import Tape
from cadence_runtime.zstd import decompress
from cadencec.diff.facts import Facts, Launches, declared, unique


def plan_facts(path: str) -> Facts:
    """Read a plan file. Raises UsageError CAD92xx and PlanError CAD5xxx where nothing of it can be read."""
    outline = read_outline(path, decompress=decompress)
    plan = outline.plan
    keys = key_names(plan)
    complete = not outline.unread
    return Facts(
        kind="plan",
        path=path,
        model=plan.provenance.model,
        target=plan.target,
        parts={
            **declared(plan.program),
            "keys": dict.fromkeys(keys, ""),
            "weights": {w.name: f"{w.dtype} {list(w.sizes)} {w.sha256[:16]}" for w in plan.weights},
            "images": _images(plan.cuda),
            "numerics": dict(plan.provenance.numerics),
            "environment": dict(plan.provenance.environment),
            "provenance": _provenance(plan),
            "demand": _demand(plan),
        },
        measures=_measures(outline),
        launches=dict(zip(keys, _launches(plan), strict=True)) if complete else {},
        offsets=_offsets(plan, keys),
        unread=outline.unread,
        faults=outline.faults,
    )


def key_names(plan: Plan) -> list[str]:
    """Return an id for each capture: its stage, what it is called with, and the forms of the regions it reads."""
    return list(unique((_key_name(plan, capture), "") for capture in plan.captures))


def _key_name(plan: Plan, capture: Capture) -> str:
    key = capture.key
    stage = next((s for s in plan.program.stages if s.name == key.stage), None)
    args = [*stage.args, *([stage.repeat[0]] if stage.repeat else [])] if stage else []
    words = [f"{name}={value}" for name, value in zip(args, key.args, strict=False)]
    inputs = [item.name for item in stage.inputs] if stage else []
    words += [f"{name}={_form(form)}" for name, form in zip(inputs, key.inputs, strict=False)]
    found: dict[str, list[str]] = {}
    for leaf, form in key.state:
        found.setdefault(plan.leaves[leaf].owner, []).append(_form(plan.forms[form]))
    for owner, forms in found.items():
        runs = [(form, len(list(group))) for form, group in groupby(forms)]
        words.append(f"{owner}=" + "+".join(form if count == 1 else f"{count}x{form}" for form, count in runs))
    return f"{key.stage}({', '.join(words)})"


def _form(form: Form) -> str:
    if not isinstance(form, TensorForm):
        return form.text or form.kind
    text = f"[{','.join(map(str, form.sizes))}]"
    strides, step = [], 1
    for size in reversed(form.sizes):
        strides.append(step)
        step *= size
    if 0 not in form.sizes and form.strides != tuple(reversed(strides)):
        text += f"/[{','.join(map(str, form.strides))}]"
    return text + (f"@{form.offset}" if form.offset else "")


def _demand(plan: Plan) -> dict[str, str]:
    regions = {region.name: 0 for region in plan.program.regions}
    for leaf in plan.leaves:
        if leaf.owner in regions:
            regions[leaf.owner] += leaf.slot_bytes
    return {name: f"{size_bytes} bytes" for name, size_bytes in regions.items()}


def _measures(outline: Outline) -> dict[str, int]:
    plan, sections = outline.plan, {section.name: section.size_bytes for section in outline.plan.sections}
    found: dict[str, int] = {
        "memory": max((section.offset + section.size_bytes for section in plan.sections), default=0),
        **{name: sections[name] for name in ("state", "scratch", "weights", "constants") if name in sections},
        "plan": outline.size_bytes,
        "keys": len(plan.captures),
        "captures": len({capture.tape for capture in plan.captures}) if plan.target == "cpu" else len(plan.captures),
    }
    if plan.cuda is not None:
        found["nodes"] = sum(len(graph.nodes) for graph in plan.cuda.graphs)
        found["kernels"] = len(plan.cuda.kernels)
        found["images"] = sum(len(plan.blobs[image.blob]) for image in plan.cuda.images)
    elif plan.target == "cpu" and not outline.unread:
        found["nodes"] = sum(len(plan.tapes[capture.tape].ops) for capture in plan.captures)
    return found


def _images(part: CudaPart | None) -> dict[str, str]:
    if part is None:
        return {}
    found = {f"image {image.sha256[:16]}": image.library or "of an unknown library" for image in part.images}
    kernels = (
        (f"kernel {kernel.name}", f"in image {part.images[kernel.image].sha256[:16]}, {list(kernel.param_sizes)}")
        for kernel in part.kernels
    )
    return found | unique(kernels)


def _provenance(plan: Plan) -> dict[str, str]:
    origin = plan.provenance
    return {
        "compiler": origin.compiler,
        "entry": origin.entry,
        "format": f"{MAJOR}.{MINOR}",
        "random weights": str(origin.random_weights).lower(),
        "spec": origin.spec_sha256,
        "weights file": plan.weights_file or "embedded",
    }


def _launches(plan: Plan) -> Iterator[Launches]:
    if plan.cuda is None:
        known = [_tape_launches(tape) for tape in plan.tapes]
        yield from (known[capture.tape] for capture in plan.captures)
    else:
        yield from (_graph_launches(plan.cuda, graph) for graph in plan.cuda.graphs)


def _tape_launches(tape: Tape) -> Launches:
    names = tuple(op.name for op in tape.ops)
    return Launches(names, ("",) * len(names), tuple(replace(op, source="") for op in tape.ops))


def _graph_launches(part: CudaPart, graph: Graph) -> Launches:
    rows = [_node(part, node) for node in graph.nodes]
    return Launches(tuple(r[0] for r in rows), tuple(r[1] for r in rows), tuple(r[2] for r in rows))


def _node(part: CudaPart, node: GraphNode) -> tuple[str, str, object]:
    if not isinstance(node, KernelNode):
        name = type(node).__name__.removesuffix("Node").lower()
        return name, "", replace(node, op=0)
    shape = f"grid {_dims(node.grid)} block {_dims(node.block)}"
    shape += f" shared {node.shared_bytes}" if node.shared_bytes else ""
    return part.kernels[node.kernel].name, shape, (node.params, node.attributes)


def _dims(dims: tuple[int, int, int]) -> str:
    return "x".join(map(str, dims))


def _offsets(plan: Plan, keys: list[str]) -> Mapping[str, str]:
    """Return where everything stands: news only to somebody who asks."""
    found = {f"section {section.name}": str(section.offset) for section in plan.sections}
    found |= {f"leaf {leaf.path}": str(leaf.slot_offset) for leaf in plan.leaves}
    found |= {f"weight {weight.name}": str(weight.offset) for weight in plan.weights}
    for name, capture in zip(keys, plan.captures, strict=True):
        places = [*capture.input_offsets, "->", *capture.output_offsets, "scratch", *(at for _, at in capture.scratch)]
        found[f"key {name}"] = " ".join(map(str, places))
    return found
