"""The CPU player: one allocation, one graph for each capture, run by torch's C++ interpreter."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cadence_runtime.cpu.graph import GraphBuilder, Script
from cadence_runtime.cpu.literals import DTYPES
from cadence_runtime.cpu.memory import Arena
from cadence_runtime.format.plan import Capture, Plan, TensorForm
from cadence_runtime.format.tape import Binding, Storage, Tape, View

WeightSource = Callable[[str], memoryview]
"""Returns the raw bytes of a weight by tensor name."""

_generator_lock = threading.Lock()
"""torch's default generator is one for the process; a capture that draws has it to itself."""


class CpuPlayer:
    """See `cadence_runtime.player.Player`; arrays are torch tensors on the CPU."""

    def __init__(self, plan: Plan, weights: WeightSource) -> None:
        self.plan = plan
        self._sections = {section.name: section for section in plan.sections}
        self._arena = Arena(max(section.offset + section.size_bytes for section in plan.sections))
        self._weights = {weight.name: self._offset("weights", weight.offset) for weight in plan.weights}
        self._constants = {constant.sha256: self._offset("constants", constant.offset) for constant in plan.constants}
        self._leaves = {leaf.path: self._offset("state", leaf.slot_offset) for leaf in plan.leaves}
        self._fill(weights)
        state = self._sections["state"]
        self._state = self._arena.part(state.offset, state.size_bytes)
        self._inputs = [self._input_tensors(capture) for capture in plan.captures]
        self._outputs = [self._output_tensors(capture) for capture in plan.captures]
        self._scripts: list[Script | None] = [None] * len(plan.captures)
        self._draws = [plan.tapes[capture.tape].draws for capture in plan.captures]

    def accept(self, value: object, dtype: str) -> Tensor:
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
        if not isinstance(value, Tensor):
            raise TypeError(type(value).__name__)
        if value.dtype is not DTYPES[dtype] or not value.is_cpu:
            raise ValueError(f"{str(value.dtype).removeprefix('torch.')} on {value.device}")
        return value.detach() if value.requires_grad else value

    def shape(self, array: Tensor) -> tuple[int, ...]:
        return tuple(array.shape)

    def rows(self, values: tuple[int, ...], dtype: str, axis: int, rank: int) -> Tensor:
        sizes = [1] * rank
        sizes[axis] = len(values)
        return torch.tensor(values, dtype=DTYPES[dtype]).reshape(sizes)

    def join(self, one: Tensor, other: Tensor, axis: int) -> Tensor:
        return torch.cat([one, other], axis)

    def take(self, array: Tensor, axis: int, lower: int, upper: int) -> Tensor:
        return array.narrow(axis, lower, upper - lower)

    def new_slab(self) -> Tensor:
        return torch.zeros_like(self._state)

    def free_slab(self, slab: Tensor) -> None:
        """Host memory goes with its last reference."""

    def activate(self, slab: Tensor) -> None:
        self._state.copy_(slab)

    def deactivate(self, slab: Tensor) -> None:
        slab.copy_(self._state)

    def seeded(self, seed: int) -> Tensor:
        return torch.Generator().manual_seed(seed).get_state()

    def write_input(self, capture: int, position: int, array: Tensor) -> None:
        self._inputs[capture][position].copy_(array)

    def run(self, capture: int, generator: Tensor) -> Tensor:
        script = self._scripts[capture]
        if script is None:
            script = self._scripts[capture] = self._translate(self.plan.captures[capture])
        if self._draws[capture]:
            return _run_with(script, generator)
        script()
        return generator

    def output(self, capture: int, position: int) -> Tensor:
        return self._outputs[capture][position]

    def copy(self, array: Tensor) -> Tensor:
        return array.clone()

    def leaf(self, index: int, form: TensorForm) -> Tensor:
        owner = self.plan.leaves[form.slot]
        return self._arena.tensor(self._leaves[owner.path], form.dtype, form.sizes, form.strides, form.offset).clone()

    def report(self) -> Mapping[str, int]:
        return {section.name: section.size_bytes for section in self.plan.sections}

    def close(self) -> None:
        self._scripts = [None] * len(self.plan.captures)

    def _offset(self, section: str, offset: int) -> int:
        return self._sections[section].offset + offset  # type: ignore[index]

    def _fill(self, weights: WeightSource) -> None:
        for weight in self.plan.weights:
            source = self.plan.blobs[weight.blob] if weight.blob is not None else weights(weight.name)
            self._store(self._weights[weight.name], source)
        for constant in self.plan.constants:
            self._store(self._constants[constant.sha256], self.plan.blobs[constant.blob])

    def _store(self, offset: int, source: bytes | memoryview) -> None:
        if len(source):
            target = self._arena.part(offset, len(source)).numpy()
            np.copyto(target, np.frombuffer(source, np.uint8))

    def _input_tensors(self, capture: Capture) -> dict[int, Tensor]:
        return {
            position: self._arena.tensor(self._offset("io", offset), form.dtype, form.sizes, form.strides, form.offset)
            for position, (form, offset) in enumerate(zip(capture.key.inputs, capture.input_offsets, strict=True))
            if isinstance(form, TensorForm)
        }

    def _output_tensors(self, capture: Capture) -> dict[int, Tensor]:
        return {
            position: self._arena.tensor(self._offset("io", offset), form.dtype, form.sizes, form.strides, form.offset)
            for position, (form, offset) in enumerate(zip(capture.outputs, capture.output_offsets, strict=True))
            if isinstance(form, TensorForm)
        }

    def _translate(self, capture: Capture) -> Script:
        """Translate a capture's tape: ops, then outputs, then the new state, staged where it lies in a slot."""
        tape = self.plan.tapes[capture.tape]
        offsets = self._storage_offsets(tape, capture)
        builder = GraphBuilder(tape, frozenset(offsets), lambda view: self._arena.view(offsets[view.storage], view))
        for op in tape.ops:
            builder.add_op(op)
        stores = [*self._output_stores(tape, capture), *self._leaf_stores(tape, capture, offsets)]
        values = [_staged(builder, tape.storages, view) for _, view in stores]
        for (target, _), value in zip(stores, values, strict=True):
            builder.copy(target, value)
        return builder.finish()

    def _storage_offsets(self, tape: Tape, capture: Capture) -> dict[int, int]:
        """Return the arena offset of every storage of the tape that has memory."""
        inputs = zip((binding.name for binding in tape.inputs), capture.input_offsets, strict=True)
        homes: dict[str, Mapping[str, int]] = {
            "input": {name: self._offset("io", offset) for name, offset in inputs},
            "weight": self._weights,
            "constant": self._constants,
            "leaf": self._slots(capture),
        }
        offsets = {index: self._offset("scratch", offset) for index, offset in capture.scratch}
        for index, storage in enumerate(tape.storages):
            if storage.kind != "scratch":
                offsets[index] = homes[storage.kind][storage.name]
        return offsets

    def _slots(self, capture: Capture) -> dict[str, int]:
        """Return where the slot of each leaf that a capture reads begins; a tied leaf lies in another one's."""
        forms = ((self.plan.leaves[leaf].path, self.plan.forms[form]) for leaf, form in capture.key.state)
        return {p: self._leaves[self.plan.leaves[f.slot].path] for p, f in forms if isinstance(f, TensorForm)}

    def _output_stores(self, tape: Tape, capture: Capture) -> list[tuple[Tensor, View]]:
        outputs = [self._output_tensors(capture).get(position) for position in range(len(tape.outputs))]
        return _stores(tape.outputs, outputs)

    def _leaf_stores(self, tape: Tape, capture: Capture, offsets: Mapping[int, int]) -> list[tuple[Tensor, View]]:
        """Return the stores of new leaves, without those that are where they belong already."""
        forms = {index: self.plan.forms[form] for index, form in capture.writes}
        paths = {leaf.path: index for index, leaf in enumerate(self.plan.leaves)}
        targets = []
        for binding in tape.state_out:
            form = forms.get(paths.get(binding.name, -1))
            targets.append(self._slot(form) if isinstance(form, TensorForm) else None)
        located = [(t, v) for t, v in _stores(tape.state_out, targets)]
        return [
            (t, v)
            for t, v in located
            if not (v.storage in offsets and _same(t, self._arena.view(offsets[v.storage], v)))
        ]

    def _slot(self, form: TensorForm) -> Tensor:
        offset = self._leaves[self.plan.leaves[form.slot].path]
        return self._arena.tensor(offset, form.dtype, form.sizes, form.strides, form.offset)


def _stores(bindings: tuple[Binding, ...], targets: list[Tensor | None]) -> list[tuple[Tensor, View]]:
    pairs = zip(bindings, targets, strict=True)
    return [_once(t, b.value) for b, t in pairs if t is not None and isinstance(b.value, View)]


def _once(target: Tensor, view: View) -> tuple[Tensor, View]:
    """Return target and view with one element of each dim along which the target repeats itself (an expanded state)."""
    repeats = [stride == 0 and size > 1 for size, stride in zip(target.shape, target.stride(), strict=True)]
    for dim, is_repeat in enumerate(repeats):
        target = target.narrow(dim, 0, 1) if is_repeat else target
    sizes = tuple(1 if is_repeat else size for size, is_repeat in zip(view.sizes, repeats, strict=True))
    return target, replace(view, sizes=sizes)


def _staged(builder: GraphBuilder, storages: tuple[Storage, ...], view: View) -> object:
    """Return the value to store; one that lies in a slot is copied aside, since a store could change it first."""
    value = builder.value(view)
    return builder.clone(value) if storages[view.storage].kind == "leaf" else value


def _same(one: Tensor, other: Tensor) -> bool:
    key = (one.data_ptr(), one.shape, one.stride(), one.dtype, one.is_conj(), one.is_neg())
    return key == (other.data_ptr(), other.shape, other.stride(), other.dtype, other.is_conj(), other.is_neg())


def _run_with(script: Script, generator: Tensor) -> Tensor:
    """Run with torch's default generator in a session's state, and put the process's own state back."""
    with _generator_lock:
        kept = torch.default_generator.get_state()
        torch.default_generator.set_state(generator)
        try:
            script()
            return torch.default_generator.get_state()
        finally:
            torch.default_generator.set_state(kept)
