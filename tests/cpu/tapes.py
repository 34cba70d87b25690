"""One tape as a plan of one capture, played by the CPU player: what goes in by name, what comes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from cadence_runtime.cpu.player import CpuPlayer
from cadence_runtime.format.layout import layout_errors
from cadence_runtime.format.plan import (
    Capture,
    Constant,
    Fidelity,
    Form,
    Key,
    Leaf,
    Plan,
    Provenance,
    Section,
    TensorForm,
    Weight,
)
from cadence_runtime.format.tape import Binding, Literal, Op, Storage, Tape, View
from cadence_runtime.host.program import Program
from cadencec.arena.planner import aligned
from cadencec.targets.cpu.lower import lower
from cadencec.trace.bits import copy_into, raw_bytes
from cadencec.trace.operands import encode_literal, views_of
from cadencec.trace.state import form_bytes

PROGRAM = Program((), (), (), (), (), (), (), None, None)
NOTHING = Provenance("m", "m:build", "", "0", (), (), False)


@dataclass(frozen=True, slots=True)
class Played:
    """Outputs by position, new leaves by path, and where the generator stood behind it."""

    outputs: list[Any]
    leaves: dict[str, Any]
    generator: Tensor


def play(
    tape: Tape,
    inputs: Mapping[str, Tensor],
    leaves: Mapping[str, Tensor],
    weights: Mapping[str, Tensor] = MappingProxyType({}),
    constants: Mapping[str, Tensor] = MappingProxyType({}),
    seed: int = 0,
) -> Played:
    """Play a tape once."""
    plan = plan_of(tape, weights, constants)
    assert list(layout_errors(plan)) == []
    player = CpuPlayer(plan, lambda name: memoryview(raw_bytes(weights[name]).numpy()))
    for leaf, form in plan.captures[0].key.state:
        copy_into(player._places.leaf(plan.forms[form]), leaves[plan.leaves[leaf].path])
    for position, binding in enumerate(tape.inputs):
        player.write_input(0, position, player.accept(inputs[binding.name], binding.value.dtype))
    generator = player.run(0, player.seeded(seed))
    outputs = [
        player.copy(player.output(0, position)) if isinstance(form, TensorForm) else form
        for position, form in enumerate(plan.captures[0].outputs)
    ]
    written = {plan.leaves[leaf].path: (leaf, plan.forms[form]) for leaf, form in plan.captures[0].writes}
    after = {p: player.leaf(i, f) if isinstance(f, TensorForm) else f for p, (i, f) in written.items()}
    player.close()
    return Played(outputs, after, generator)


def plan_of(tape: Tape, weights: Mapping[str, Tensor], constants: Mapping[str, Tensor]) -> Plan:
    """Return a plan of one capture, with the scratch that the CPU target gives it; everything else in a row."""
    paths = sorted({binding.name for binding in (*tape.state_in, *tape.state_out)})
    before = {b.name: _form(b, paths, tape, old=True) for b in tape.state_in}
    after = {b.name: _form(b, paths, tape, old=b.value == old_value(tape, b.name)) for b in tape.state_out}
    forms: tuple[Form, ...] = tuple(dict.fromkeys([*before.values(), *after.values()]))
    ins, outs = ([_form(b, (), tape, old=False) for b in rows] for rows in (tape.inputs, tape.outputs))
    lowered = lower(tape)
    rooms = [
        max((form_bytes(f) for f in forms if isinstance(f, TensorForm) and f.slot == i), default=0)
        for i in range(len(paths))
    ]
    used = {storage.name for storage in tape.storages if storage.kind == "constant"}
    blobs = {name: raw_bytes(constants[name]).numpy().tobytes() for name in sorted(used)}
    sizes = {
        "weights": [w.numel() * w.element_size() for w in weights.values()],
        "constants": [len(blob) for blob in blobs.values()],
        "state": rooms,
        "io": [form_bytes(form) for form in (*ins, *outs)],
    }
    rows = {name: row(found) for name, found in sizes.items()}
    io = rows["io"][0]
    capture = Capture(
        Key("step", (), tuple(ins), tuple((paths.index(p), forms.index(f)) for p, f in sorted(before.items()))),
        0,
        tuple((paths.index(p), forms.index(f)) for p, f in sorted(after.items())),
        tuple(outs),
        io[: len(ins)],
        io[len(ins) :],
        lowered.scratch,
    )
    named = zip(weights.items(), rows["weights"][0], strict=True)
    return Plan(
        "cpu",
        PROGRAM,
        tuple(Leaf(path, path, at, room) for path, at, room in zip(paths, rows["state"][0], rooms, strict=True)),
        forms,
        (tape,),
        (capture,),
        (),
        (),
        0,
        sections({**{name: size for name, (_, size) in rows.items()}, "scratch": lowered.packing.height_bytes}),
        tuple(Weight(n, str(w.dtype).removeprefix("torch."), tuple(w.shape), "", at, None) for (n, w), at in named),
        None,
        tuple(
            Constant(name, len(blob), at, i)
            for i, ((name, blob), at) in enumerate(zip(blobs.items(), rows["constants"][0], strict=True))
        ),
        tuple(blobs.values()),
        Fidelity(0, 0, 0, 0, ()),
        NOTHING,
    )


def old_value(tape: Tape, path: str) -> View | Literal | None:
    return next((binding.value for binding in tape.state_in if binding.name == path), None)


def _form(binding: Binding, paths: Any, tape: Tape, *, old: bool) -> Form:
    """A leaf that a stage finds stands where its view does; whatever is new begins at its slot."""
    view = binding.value
    if isinstance(view, Literal):
        return view
    slot = paths.index(binding.name) if binding.name in paths else -1
    return TensorForm(view.dtype, view.sizes, view.strides, slot, view.offset if old else 0)


def row(sizes: list[int]) -> tuple[tuple[int, ...], int]:
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += aligned(size)
    return tuple(offsets), end


def sections(sizes: Mapping[str, int]) -> tuple[Section, ...]:
    found, at = [], 0
    for name, size in sizes.items():
        found.append(Section(name, at, size, size, "in a row"))
        at += aligned(size)
    return tuple(found)


def view(storage: int, *sizes: int, dtype: str = "float32", offset: int = 0, **more: Any) -> View:
    """Return a contiguous view."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= size
    return replace(View(storage, dtype, sizes, tuple(strides), offset), **more)


def number(value: float) -> Literal:
    """Return a number as a tape holds it."""
    return encode_literal(value, torch.device("cpu"))


def ints(*values: int) -> tuple[Literal, ...]:
    """Return a list of ints as a tape holds it."""
    return tuple(map(number, values))


def scratch(size_bytes: int) -> Storage:
    """Return memory that an op makes."""
    return Storage("scratch", "", size_bytes)


def call(name: str, *args: Any, out: Any, **kwargs: Any) -> Op:
    """Return an op that reads the storages of its operands and makes or changes those of `out`."""
    outs = tuple(out) if isinstance(out, list) else (out,)
    reads = {found.storage for found in views_of((*args, *kwargs.values()))}
    writes = {found.storage for found in views_of(outs)}
    named = tuple(sorted(kwargs.items()))
    return Op(name, tuple(args), named, outs, tuple(sorted(reads)), tuple(sorted(writes)), "model.py:1")


def stage(
    storages: Sequence[Storage],
    ops: Sequence[Op],
    inputs: Mapping[str, View] = MappingProxyType({}),
    outputs: Mapping[str, View | Literal] = MappingProxyType({}),
    state_in: Mapping[str, View | Literal] = MappingProxyType({}),
    state_out: Mapping[str, View | Literal] = MappingProxyType({}),
) -> Tape:
    """Return a tape with these names bound."""
    rows = (tuple(Binding(*item) for item in part.items()) for part in (inputs, state_in, outputs, state_out))
    taken, before, made, after = rows
    return Tape("step", tuple(storages), taken, before, tuple(ops), made, after, any(op.draws for op in ops))
