"""A stage that repeats, without the names that its index gives things: what is equal then is captured once.

    tape at euler = 2      leaf att[2]   constant 3f2a..   weight deltas, from byte 8
    tape at euler = 3      leaf att[3]   constant 81c0..   weight deltas, from byte 12
    without names          leaf att[]    constant #4       weight #7

Two indices whose tapes differ in more (another op, another number) are two captures.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cadence_runtime.format.plan import Form, TensorForm
from cadence_runtime.format.tape import ITEM_BYTES, Binding, Storage, Tape, View
from cadencec.passes.program import map_tape
from cadencec.targets.backend import Finding
from cadencec.targets.cuda.placement import Slot, SlotName
from cadencec.trace.operands import views_of
from cadencec.trace.state import form_bytes


@dataclass(frozen=True, slots=True)
class Use:
    """What a buffer of a capture is: bytes from `lower` on of a named one of the plan. So many bytes of a leaf's slot
    are read, so many left behind; weights, constants and inputs are read in full, and outputs have a place of their
    own."""

    name: SlotName
    lower: int
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True, slots=True)
class Nameless:
    """A finding and its slots as they are captured, and what each slot stands for."""

    finding: Finding
    slots: tuple[Slot, ...]
    uses: tuple[Use, ...]


def nameless(finding: Finding, slots: Sequence[Slot]) -> Nameless:
    """Take the names off a finding of a repeated stage; any other stays as it is."""
    uses = tuple(_uses(finding, slots))
    rows = finding.rows
    if rows is None or _ties_a_row(finding, rows):
        return Nameless(finding, tuple(slots), uses)
    windows = _windows(finding.tape)
    names = {SlotName("leaf", path): SlotName("leaf", f"{whole}[]") for path, whole in rows.items()}
    for index, storage in enumerate(finding.tape.storages):
        if index in windows:
            names[SlotName(storage.kind, storage.name)] = SlotName(storage.kind, f"#{index}")  # type: ignore[arg-type]
    cut = {SlotName(s.kind, s.name): windows[i] for i, s in enumerate(finding.tape.storages) if i in windows}  # type: ignore[arg-type]
    return Nameless(
        _renamed(finding, {old.name: new.name for old, new in names.items() if old.kind == "leaf"}, windows),
        tuple(_cut(replace(slot, name=names.get(slot.name, slot.name)), cut.get(slot.name)) for slot in slots),
        tuple(_narrowed(use, cut.get(use.name)) for use in uses),
    )


Window = tuple[int, int]
"""The half-open range of bytes of a storage that views of a tape touch."""


def _windows(tape: Tape) -> dict[int, Window]:
    """Return what is touched of each weight and constant of the device, by storage."""
    found: dict[int, Window] = {}
    items: dict[int, set[int]] = {}
    for view in _views(tape):
        storage = tape.storages[view.storage]
        if storage.kind not in ("weight", "constant") or storage.host:
            continue
        lower, upper = view.span()
        known = found.get(view.storage, (0, 0))
        if upper > lower:  # a view without elements may stand anywhere
            known = (min(known[0], lower), max(known[1], upper)) if known[1] else (lower, upper)
        found[view.storage] = known
        items.setdefault(view.storage, set()).add(ITEM_BYTES[view.dtype])
    return {
        index: (0 if any(lower % item for item in items[index]) else lower, upper)
        for index, (lower, upper) in found.items()
    }


def _views(tape: Tape) -> Iterator[View]:
    for op in tape.ops:
        yield from views_of((*op.args, *(value for _, value in op.kwargs), *op.outs))
    yield from views_of(binding.value for binding in (*tape.outputs, *tape.state_out))


def _cut(slot: Slot, window: Window | None) -> Slot:
    if window is None:
        return slot
    content = None if slot.content is None else slot.content[window[0] : window[1]]
    return Slot(slot.name, window[1] - window[0], content)


def _narrowed(use: Use, window: Window | None) -> Use:
    return use if window is None else replace(use, lower=window[0], read_bytes=window[1] - window[0])


def _renamed(finding: Finding, leaves: Mapping[str, str], windows: Mapping[int, Window]) -> Finding:
    """Return the finding with leaves by other paths, with weights and constants by their number and from their window
    on, and with slots numbered as they come."""

    def storage(index: int, old: Storage) -> Storage:
        if index in windows:
            return replace(old, name=f"#{index}", size_bytes=windows[index][1] - windows[index][0])
        return replace(old, name=leaves.get(old.name, old.name)) if old.kind == "leaf" else old

    def view(old: View) -> View:
        lower = windows.get(old.storage, (0, 0))[0] // ITEM_BYTES[old.dtype]
        return replace(old, offset=max(old.offset - lower, 0)) if lower else old

    def bindings(old: Sequence[Binding]) -> tuple[Binding, ...]:
        return tuple(replace(binding, name=leaves.get(binding.name, binding.name)) for binding in old)

    forms = [form for found in (finding.before, finding.after) for form in found.values()]
    slots = sorted({form.slot for form in forms if isinstance(form, TensorForm)})
    number = {slot: position for position, slot in enumerate(slots)}

    def form(old: Form) -> Form:
        return replace(old, slot=number[old.slot]) if isinstance(old, TensorForm) else old

    tape = map_tape(finding.tape, view, {})
    tape = replace(
        tape,
        storages=tuple(storage(index, old) for index, old in enumerate(tape.storages)),
        state_in=bindings(tape.state_in),
        state_out=bindings(tape.state_out),
    )
    return replace(
        finding,
        tape=tape,
        leaves={leaves.get(path, path): value for path, value in finding.leaves.items()},
        before={leaves.get(path, path): form(old) for path, old in finding.before.items()},
        after={leaves.get(path, path): form(old) for path, old in finding.after.items()},
        owners=[leaves.get(finding.owners[slot], finding.owners[slot]) for slot in slots],
    )


def _ties_a_row(finding: Finding, rows: Mapping[str, str]) -> bool:
    """Return whether a row shares its slot with a leaf that is none, and so cannot be moved alone."""
    return any(
        (path in rows) != (finding.owners[form.slot] in rows)
        for found in (finding.before, finding.after)
        for path, form in found.items()
        if isinstance(form, TensorForm)
    )


def _uses(finding: Finding, slots: Sequence[Slot]) -> Iterator[Use]:
    read, written = _reaches(finding, finding.before), _reaches(finding, finding.after)
    for path, form in finding.before.items():
        if isinstance(form, TensorForm) and _is_written(finding.tape, path):
            owner = finding.owners[form.slot]
            written[owner] = max(written.get(owner, 0), read[owner])
    for slot in slots:
        if slot.name.kind == "leaf":
            yield Use(slot.name, 0, read.get(slot.name.name, 0), written.get(slot.name.name, 0))
        else:
            yield Use(slot.name, 0, 0 if slot.name.kind == "output" else slot.size_bytes, 0)


def _reaches(finding: Finding, forms: Mapping[str, Form]) -> dict[str, int]:
    """Return how far forms reach into the slots that they lie in, by the path of the slot's leaf."""
    found: dict[str, int] = {}
    for form in forms.values():
        if isinstance(form, TensorForm):
            owner = finding.owners[form.slot]
            found[owner] = max(found.get(owner, 0), form_bytes(form))
    return found


def _is_written(tape: Tape, path: str) -> bool:
    written = {index for op in tape.ops for index in op.writes}
    return any(tape.storages[index].kind == "leaf" and tape.storages[index].name == path for index in written)
