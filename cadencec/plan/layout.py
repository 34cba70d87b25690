"""Where everything but scratch lies in the arena: weights, constants, state slots, inputs and outputs.

    arena   | weights | constants | state | io | scratch |        every part and everything in it starts on 256 bytes

An input or output of a stage has one slot in `io` for all captures of the stage, as long as the longest of its forms:
a stage's outputs stay where they are while a later stage of the event runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cadence_runtime.format.plan import Capture, Form, Leaf, Section, TensorForm
from cadence_runtime.format.tape import Tape
from cadencec.arena.planner import aligned
from cadencec.trace.leaves import Leaves
from cadencec.trace.state import form_bytes


@dataclass(frozen=True, slots=True)
class Row:
    """Offsets of things laid one after the other, and the size of all."""

    offsets: tuple[int, ...]
    size_bytes: int


def in_a_row(sizes: Iterable[int]) -> Row:
    """Lay sizes one after the other, each aligned. An empty one gets an offset and no room."""
    offsets, offset = [], 0
    for size in sizes:
        offsets.append(offset)
        offset += aligned(size)
    return Row(tuple(offsets), offset)


def slots(leaves: Leaves, forms: Sequence[Form]) -> tuple[tuple[Leaf, ...], int]:
    """Return the leaves with a slot each, as long as the longest form of any leaf in it, and the size of a slab."""
    sizes = [0] * len(leaves.declared)
    for form in forms:
        if isinstance(form, TensorForm):
            sizes[form.slot] = max(sizes[form.slot], form_bytes(form))
    row = in_a_row(sizes)
    declared = zip(leaves.declared, row.offsets, sizes, strict=True)
    return tuple(Leaf(leaf.path, leaf.owner, offset, size) for leaf, offset, size in declared), row.size_bytes


def place_io(captures: Sequence[Capture], tapes: Sequence[Tape]) -> tuple[tuple[Capture, ...], int]:
    """Return the captures with offsets for their inputs and outputs, and the size of the io section."""
    sizes: dict[tuple[str, str, str], int] = {}
    for capture in captures:
        for name, form in _named(capture, tapes[capture.tape]):
            sizes[name] = max(sizes.get(name, 0), form_bytes(form))
    row = in_a_row(sizes.values())
    offsets = dict(zip(sizes, row.offsets, strict=True))
    return tuple(_placed(capture, tapes[capture.tape], offsets) for capture in captures), row.size_bytes


def _named(capture: Capture, tape: Tape) -> list[tuple[tuple[str, str, str], Form]]:
    stage = capture.key.stage
    inputs = zip(tape.inputs, capture.key.inputs, strict=True)
    outputs = zip(tape.outputs, capture.outputs, strict=True)
    return [((stage, "in", b.name), form) for b, form in inputs] + [
        ((stage, "out", b.name), form) for b, form in outputs
    ]


def _placed(capture: Capture, tape: Tape, offsets: Mapping[tuple[str, str, str], int]) -> Capture:
    stage = capture.key.stage
    return replace(
        capture,
        input_offsets=tuple(offsets[stage, "in", binding.name] for binding in tape.inputs),
        output_offsets=tuple(offsets[stage, "out", binding.name] for binding in tape.outputs),
    )


def sections(rows: Mapping[str, int], scratch_bytes: int, scratch_bound: int, method: str) -> tuple[Section, ...]:
    """Return the parts of the arena: those of `rows` by name and size, which nothing can make smaller, then scratch."""
    found, offset = [], 0
    for name, size in rows.items():
        found.append(Section(name, offset, size, size, "in a row"))  # type: ignore[arg-type]
        offset += aligned(size)
    found.append(Section("scratch", offset, scratch_bytes, scratch_bound, method))
    return tuple(found)
