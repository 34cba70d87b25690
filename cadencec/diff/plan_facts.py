"""The facts of a plan file, read without its blobs."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from cadence_runtime.format.blobs import UnreadBlob
from cadence_runtime.format.cuda import CudaPart, GraphNode, Kernel, KernelNode
from cadence_runtime.format.outline import Outline, read_outline
from cadence_runtime.format.plan import Capture, Form, Plan, TensorForm
from cadence_runtime.format.tape import Tape
from cadence_runtime.format.templates import node_counts
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
            "arena": {section.name: f"{section.size_bytes} bytes, {section.method}" for section in plan.sections},
            "library": dict(_library(plan)),
            "constants": {f"constant {c.sha256[:16]}": f"{c.size_bytes} bytes" for c in plan.constants},
            "weights": {w.name: f"{w.dtype} {list(w.sizes)} {w.sha256[:16]}" for w in plan.weights},
            "images": _images(plan.cuda),
            "numerics": dict(plan.provenance.numerics),
            "environment": _environment(plan),
            "provenance": _provenance(outline),
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
        found["nodes"] = sum(node_counts(plan.cuda.graphs))
        found["kernels"] = len(plan.cuda.kernels)
        found["images"] = sum(len(plan.blobs[image.blob]) for image in plan.cuda.images)
    elif plan.target == "cpu" and not outline.unread:
        found["nodes"] = sum(len(plan.tapes[capture.tape].ops) for capture in plan.captures)
    return found


def _images(part: CudaPart | None) -> dict[str, str]:
    if part is None:
        return {}
    found = {f"image {image.sha256[:16]}": image.library or "of an unknown library" for image in part.images}
    return found | unique((f"kernel {kernel.name}", _kernel(part, kernel)) for kernel in part.kernels)


def _kernel(part: CudaPart, kernel: Kernel) -> str:
    params = ", ".join(f"{size} at {at}" for at, size in zip(kernel.param_offsets, kernel.param_sizes, strict=True))
    attributes = "".join(f", attribute {number} = {value}" for number, value in kernel.attributes)
    return f"in image {part.images[kernel.image].sha256[:16]}, parameters {params or 'none'}{attributes}"


def _library(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what libraries had put on the device, by name and digest."""
    if plan.cuda is None:
        return
    places = Places(plan)
    for variable in plan.cuda.globals:
        pointers = [f"{at} -> {places.name(offset)}" for at, offset in variable.pointers]
        digest = hashlib.sha256(variable.data).hexdigest()[:16]
        image = plan.cuda.images[variable.image].sha256[:16]
        yield (
            f"variable {variable.name} of {image}",
            f"{len(variable.data)} bytes {digest} {' '.join(pointers)}".strip(),
        )
    for snapshot in plan.cuda.snapshots:
        content = "zeros" if snapshot.blob is None else f"content {plan_blob(plan, snapshot.blob)}"
        yield f"buffer {snapshot.name}", f"{snapshot.size_bytes} bytes, {content}"


def plan_blob(plan: Plan, number: int) -> str:
    """Return the digest that a blob claims, cut short."""
    blob: object = plan.blobs[number]
    return blob.sha256[:16] if isinstance(blob, UnreadBlob) else ""


def _provenance(outline: Outline) -> dict[str, str]:
    plan, origin, fidelity = outline.plan, outline.plan.provenance, outline.plan.fidelity
    return {
        "compiler": origin.compiler,
        "entry": origin.entry,
        "format": outline.version,
        "random weights": str(origin.random_weights).lower(),
        "spec": origin.spec_sha256,
        "weights file": plan.weights_file or "embedded",
        "compared": f"{fidelity.tapes} tapes on {fidelity.values_per_tape} values, a walk of {fidelity.walk_events}, "
        f"{fidelity.outputs_compared} outputs",
        "constant outputs": ", ".join(fidelity.constant_outputs) or "none",
    }


def _environment(plan: Plan) -> dict[str, str]:
    found = dict(plan.provenance.environment)
    if plan.cuda is not None:
        major, minor = plan.cuda.compute_capability
        found |= {"compute capability": f"{major}.{minor}", "driver": str(plan.cuda.driver)}
    return found


def _launches(plan: Plan) -> Iterator[Launches]:
    if plan.cuda is None:
        known = [_tape_launches(tape) for tape in plan.tapes]
        yield from (known[capture.tape] for capture in plan.captures)
        return
    places, nodes = Places(plan), dict[int, tuple[str, str, object]]()
    for number, capture in enumerate(plan.captures):
        yield _graph_launches(plan.cuda, number, places.of(capture), nodes)


def _tape_launches(tape: Tape) -> Launches:
    names = tuple(op.name for op in tape.ops)
    frame = {
        "storages": tuple(replace(s, size_bytes=0) if s.kind == "scratch" else s for s in tape.storages),
        "inputs or outputs": (tape.inputs, tape.state_in, tape.outputs, tape.state_out),
    }
    return Launches(names, ("",) * len(names), tuple(replace(op, source="") for op in tape.ops), frame)


def _graph_launches(
    part: CudaPart, capture: int, places: "Places", known: dict[int, tuple[str, str, object]]
) -> Launches:
    """`known` has the facts of nodes by identity: equal launches of a plan are one object."""
    graph, launch, rows = part.graph_of(capture), part.launch(capture), []
    for node in graph.nodes:
        row = known.get(id(node))
        if row is None:
            row = known[id(node)] = _node(part, node)
        rows.append(row)
    pointers = tuple([(r.node, r.word, places.name(r.offset)) for r in graph.relocations])
    generator = None if graph.philox is None else (places.name(graph.philox[0]), graph.philox[1])
    moves = [(places.name(m.destination), places.name(m.source), m.size_bytes) for m in launch.before + launch.after]
    frame = {"edges": graph.edges, "pointers": pointers, "generator": generator, "rows moved": tuple(moves)}
    return Launches(tuple(r[0] for r in rows), tuple(r[1] for r in rows), tuple(r[2] for r in rows), frame)


class Places:
    """What stands at an offset of the arena, by a name that stays when it moves: a weight, constant or leaf with the
    distance from its start, the n-th input or output of a capture, the n-th buffer that a graph uses of the rest."""

    def __init__(self, plan: Plan) -> None:
        self._sections = [(s.offset, s.offset + s.size_bytes, s.name) for s in plan.sections]
        base = {section.name: section.offset for section in plan.sections}
        rows = [(base["weights"] + w.offset, f"weight {w.name}") for w in plan.weights if "weights" in base]
        rows += [(base["constants"] + c.offset, f"constant {c.sha256}") for c in plan.constants if "constants" in base]
        rows += [(base["state"] + leaf.slot_offset, f"leaf {leaf.path}") for leaf in plan.leaves if "state" in base]
        rows.sort()
        self._io = base.get("io", 0)
        self._starts, self._names = [at for at, _ in rows], [name for _, name in rows]
        self._fixed: dict[int, str] = {}
        self._section_of: dict[int, str] = {}
        self._own: dict[int, str] = {}
        self._met: dict[int, int] = {}

    def of(self, capture: Capture) -> "Places":
        """Begin with another capture."""
        self._met = {}
        self._own = {self._io + at: f"input {i}" for i, at in enumerate(capture.input_offsets)}
        self._own |= {self._io + at: f"output {i}" for i, at in enumerate(capture.output_offsets)}
        return self

    def name(self, offset: int) -> str | tuple[str, int]:
        """Return what stands at an offset."""
        fixed = self._fixed.get(offset)
        if fixed is not None:
            return fixed
        own = self._own.get(offset)
        if own is not None:
            return own
        section = self._section_of.get(offset)
        if section is None:
            section = next((name for lower, upper, name in self._sections if lower <= offset < upper), "the end")
            self._section_of[offset] = section
        if section in ("weights", "constants", "state"):
            index = max(bisect_right(self._starts, offset) - 1, 0)
            name = f"{self._names[index]} + {offset - self._starts[index]}" if self._names else section
            self._fixed[offset] = name
            return name
        return section, self._met.setdefault(offset, len(self._met))


def _node(part: CudaPart, node: GraphNode) -> tuple[str, str, object]:
    if not isinstance(node, KernelNode):
        name = type(node).__name__.removesuffix("Node").lower()
        return name, "", node
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
