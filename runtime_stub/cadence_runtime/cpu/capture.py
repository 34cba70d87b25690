"""A capture made ready to run: its tape as a graph, on the places where the plan puts things.

    ops of the tape  ->  outputs that are not where they go yet  ->  new leaves, staged where they lie in a slot

An output that is the whole of a planned result is made in the io section at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from cadence_runtime.cpu.graph import GraphBuilder, Script
from cadence_runtime.cpu.memory import Arena
from cadence_runtime.format.plan import Capture, Form, Plan, TensorForm
from cadence_runtime.format.tape import Tape, View
from cadence_runtime.frozen import frozen

Store = tuple[Tensor, View]
"""Where a view of the tape is to be copied."""


@frozen
class Ready:
    """A capture's graph, and its inputs and outputs in the io section by position. Of an input that repeats itself
    along a dim, as one stage may pass it on to the next, it is one element."""

    run: Script
    inputs: Mapping[int, Tensor]
    outputs: Mapping[int, Tensor]
    draws: bool


class Places:
    """Where everything of a plan lies in its arena, in bytes from its start."""

    def __init__(self, plan: Plan, arena: Arena) -> None:
        self.plan, self.arena = plan, arena
        self.sections = {section.name: section.offset for section in plan.sections}
        self.weights = {w.name: self.sections["weights"] + w.offset for w in plan.weights}
        self.constants = {c.sha256: self.sections["constants"] + c.offset for c in plan.constants}
        self.slots = [self.sections["state"] + leaf.slot_offset for leaf in plan.leaves]
        self.numbers = {leaf.path: index for index, leaf in enumerate(plan.leaves)}

    def tensor(self, base: int, form: TensorForm) -> Tensor:
        """Return a form whose slot begins at a byte of the arena."""
        return self.arena.tensor(base, form.dtype, form.sizes, form.strides, form.offset)

    def leaf(self, form: TensorForm) -> Tensor:
        """Return a leaf of the active state."""
        return self.tensor(self.slots[form.slot], form)

    def ends(self, forms: Sequence[Form], offsets: Sequence[int]) -> dict[int, Tensor]:
        """Return inputs or outputs of a capture by position, without those that are no tensors."""
        io = self.sections["io"]
        return {
            position: self.tensor(io + offset, form)
            for position, (form, offset) in enumerate(zip(forms, offsets, strict=True))
            if isinstance(form, TensorForm)
        }

    def storages(self, tape: Tape, capture: Capture) -> dict[int, int]:
        """Return where each storage of the tape begins that has memory."""
        inputs = zip((binding.name for binding in tape.inputs), capture.input_offsets, strict=True)
        homes: dict[str, Mapping[str, int]] = {
            "input": {name: self.sections["io"] + offset for name, offset in inputs},
            "weight": self.weights,
            "constant": self.constants,
            "leaf": self._slots_read(capture),
        }
        places = {index: self.sections["scratch"] + offset for index, offset in capture.scratch}
        places |= self._made_in_place(tape, capture, places)
        for index, storage in enumerate(tape.storages):
            if storage.kind != "scratch":
                places[index] = homes[storage.kind][storage.name]
        return places

    def _slots_read(self, capture: Capture) -> dict[str, int]:
        """Return where the slot of each leaf that a capture reads begins; a tied leaf lies in another one's."""
        forms = ((self.plan.leaves[leaf].path, self.plan.forms[form]) for leaf, form in capture.key.state)
        return {path: self.slots[form.slot] for path, form in forms if isinstance(form, TensorForm)}

    def _made_in_place(self, tape: Tape, capture: Capture, planned: Mapping[int, int]) -> dict[int, int]:
        """Return the planned storages that an output is the whole of, and where the output goes."""
        found: dict[int, int] = {}
        for binding, form, offset in zip(tape.outputs, capture.outputs, capture.output_offsets, strict=True):
            view = binding.value
            if isinstance(view, View) and view.storage in planned and view.storage not in found:
                whole = view.span() == (0, tape.storages[view.storage].size_bytes)
                if whole and _form_of(view) == form:
                    found[view.storage] = self.sections["io"] + offset
        return found


def _form_of(view: View) -> TensorForm | None:
    """Return a view as the form of an output; None for one whose bits are not its bytes."""
    lazy = view.conj or view.neg
    return None if lazy else TensorForm(view.dtype, view.sizes, view.strides, offset=view.offset)


def prepare(places: Places, capture: Capture) -> Ready:
    """Translate a capture. Raises PlanError CAD5602 or CAD5603 for a tape that makes no sense."""
    plan, arena = places.plan, places.arena
    tape = plan.tapes[capture.tape]
    begins = places.storages(tape, capture)
    builder = GraphBuilder(tape, frozenset(begins), lambda view: arena.view(begins[view.storage], view))
    for op in tape.ops:
        builder.add_op(op)
    outputs = places.ends(capture.outputs, capture.output_offsets)
    for target, view in _missing(_output_stores(tape, outputs), begins, arena):
        builder.copy(target, builder.value(view))
    leaves = _missing(_leaf_stores(places, tape, capture), begins, arena)
    for (target, _), value in zip(leaves, [_staged(builder, tape, view) for _, view in leaves], strict=True):
        builder.copy(target, value)
    inputs = places.ends(capture.key.inputs, capture.input_offsets)
    singles = {position: _single(target) for position, target in inputs.items()}
    return Ready(builder.finish(), singles, outputs, tape.draws)


def _output_stores(tape: Tape, outputs: Mapping[int, Tensor]) -> list[Store]:
    values = {position: binding.value for position, binding in enumerate(tape.outputs)}
    return [_distinct(outputs[p], v) for p, v in values.items() if p in outputs and isinstance(v, View)]


def _leaf_stores(places: Places, tape: Tape, capture: Capture) -> list[Store]:
    forms = {leaf: places.plan.forms[form] for leaf, form in capture.writes}
    pairs = ((forms.get(places.numbers[binding.name]), binding.value) for binding in tape.state_out)
    return [_distinct(places.leaf(f), v) for f, v in pairs if isinstance(f, TensorForm) and isinstance(v, View)]


def _missing(stores: Sequence[Store], begins: Mapping[int, int], arena: Arena) -> list[Store]:
    """Return the stores of what is not where it belongs already."""
    return [
        (target, view)
        for target, view in stores
        if view.storage not in begins or not _same(target, arena.view(begins[view.storage], view))
    ]


def _distinct(target: Tensor, view: View) -> Store:
    """Return target and view with one element of each dim along which the target repeats itself (an expanded state)."""
    target = _single(target)
    return target, replace(view, sizes=tuple(target.shape))


def _single(target: Tensor) -> Tensor:
    """Return a tensor with one element of each dim along which it repeats itself: torch writes to no other."""
    for dim, (size, stride) in enumerate(zip(target.shape, target.stride(), strict=True)):
        target = target.narrow(dim, 0, 1) if stride == 0 and size > 1 else target
    return target


def _staged(builder: GraphBuilder, tape: Tape, view: View) -> object:
    """Return the value to store; one that lies in a slot is copied aside, since a store could change it first."""
    value = builder.value(view)
    return builder.clone(value) if tape.storages[view.storage].kind == "leaf" else value


def _same(one: Tensor, other: Tensor) -> bool:
    key = (one.data_ptr(), one.shape, one.stride(), one.dtype, one.is_conj(), one.is_neg())
    return key == (other.data_ptr(), other.shape, other.stride(), other.dtype, other.is_conj(), other.is_neg())
