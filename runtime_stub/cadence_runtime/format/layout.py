"""The arena checker: works out from a plan alone what lives when and where, the plain way, and finds every collision.

    scratch of one capture, bytes upward, ops to the right       an op position counts both what the op reads and
        storage 3      |#####|                                    what it writes: they live at the same time
        storage 2   |######|          <- 2 and 3 overlap at
        storage 1 |###|                  op 4: they may not       what outputs or new leaves are made of lives until
                  0  1  2  3  4  5       share a byte             the end, when all of them are copied out

It shares no code with the planner, on purpose, and runs whenever a plan is written or loaded.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from cadence_runtime.errors import PlanError
from cadence_runtime.format.check_tape import OpEnds, storage_ends
from cadence_runtime.format.plan import Capture, Form, Plan, TensorForm
from cadence_runtime.format.references import tensor_bytes
from cadence_runtime.format.strict_json import shown
from cadence_runtime.format.tape import ITEM_BYTES, Tape, View
from cadence_runtime.frozen import frozen

ALIGNMENT = 256
MAX_ARENA_BYTES = 1 << 46
EVERY_PLAN = ("weights", "constants", "state", "io", "scratch")
SECTIONS = {"cpu": (EVERY_PLAN,), "cuda": ((*EVERY_PLAN, "library"), (*EVERY_PLAN, "rows", "library"))}
"""The sections that the arena of a plan may have, by its target, in order."""


@frozen
class Place:
    """Bytes of a section that belong to one thing, half-open."""

    lower: int
    upper: int
    name: str


def layout_errors(plan: Plan) -> Iterator[PlanError]:
    """Yield CAD5401 to CAD5407. Indices between the parts of the plan are in order already."""
    wrong = list(_bad_sections(plan))
    yield from wrong
    if wrong:
        return
    size = {section.name: section.size_bytes for section in plan.sections}
    yield from _bad_places("weights", size["weights"], _weights(plan))
    yield from _bad_places("constants", size["constants"], _constants(plan))
    slots = (Place(leaf.slot_offset, leaf.slot_offset + leaf.slot_bytes, leaf.path) for leaf in plan.leaves)
    yield from _bad_places("state", size["state"], slots)
    yield from _bad_forms(plan)
    yield from _bad_places("io", size["io"], _io(plan))
    yield from _bad_snapshots(plan)
    yield from _bad_rooms(plan)
    yield from _bad_scratch(plan, size["scratch"])


def form_bytes(form: Form) -> int:
    """Return how many bytes of its slot a form reaches; none for a literal."""
    if not isinstance(form, TensorForm) or 0 in form.sizes:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(form.sizes, form.strides, strict=True))
    return (form.offset + last + 1) * ITEM_BYTES[form.dtype]


def _error(code: str, what: str, expected: str, got: str, at: str) -> PlanError:
    hint = "compile the plan again; if it was not changed on the way, this is a fault of the compiler"
    return PlanError(code, what, expected=expected, got=got, at=at, hint=hint)


def _bad_sections(plan: Plan) -> Iterator[PlanError]:
    names = tuple(section.name for section in plan.sections)
    if names not in SECTIONS[plan.target]:
        what, expected = "the arena has other sections", " or ".join(map(", ".join, SECTIONS[plan.target]))
        yield _error("CAD5401", what, expected, ", ".join(names) or "none", "arena")
    end = 0
    for section in plan.sections:
        at = f"arena section `{section.name}`"
        if section.offset % ALIGNMENT:
            expected = f"a multiple of {ALIGNMENT}"
            yield _error("CAD5402", "a part of the arena is not aligned", expected, f"offset {section.offset}", at)
        if section.offset < end or section.offset + section.size_bytes > MAX_ARENA_BYTES:
            expected, got = f"from {end}, up to {MAX_ARENA_BYTES}", f"{section.offset}, {section.size_bytes} bytes"
            yield _error("CAD5401", "the sections of the arena overlap or are too large", expected, got, at)
        end = section.offset + section.size_bytes


def _bad_places(section: str, size: int, places: Iterable[Place]) -> Iterator[PlanError]:
    """Yield the places that are not aligned, not inside their section, or not by themselves."""
    end, before = 0, ""
    for place in sorted(places, key=lambda place: (place.lower, place.upper, place.name)):
        if place.lower % ALIGNMENT:
            expected, at = f"a multiple of {ALIGNMENT}", _place_at(section, place)
            yield _error("CAD5402", "a part of the arena is not aligned", expected, f"offset {place.lower}", at)
        if place.lower < 0 or place.upper > size:
            expected, got = f"within {size} bytes", f"bytes {place.lower} to {place.upper}"
            at = _place_at(section, place)
            yield _error("CAD5403", "something lies outside of its section of the arena", expected, got, at)
        if place.upper > place.lower:
            if place.lower < end:
                expected, got = f"bytes from {end}, behind {shown(before)}", f"bytes from {place.lower}"
                at = _place_at(section, place)
                yield _error("CAD5404", "two things share bytes of the arena", expected, got, at)
            end, before = max(end, place.upper), place.name


def _place_at(section: str, place: Place) -> str:
    return f"arena section `{section}`, {shown(place.name)}"


def _weights(plan: Plan) -> Iterator[Place]:
    for weight in plan.weights:
        yield Place(weight.offset, weight.offset + tensor_bytes(weight.dtype, weight.sizes), weight.name)


def _constants(plan: Plan) -> Iterator[Place]:
    for constant in plan.constants:
        yield Place(constant.offset, constant.offset + constant.size_bytes, constant.sha256)


def _bad_forms(plan: Plan) -> Iterator[PlanError]:
    """Hold every form of a leaf to the slot that it lies in."""
    for number, form in enumerate(plan.forms):
        if isinstance(form, TensorForm):
            room = plan.leaves[form.slot].slot_bytes
            if form_bytes(form) > room:
                what, expected = f"form {number} is larger than its slot", f"at most {room} bytes"
                at = f"leaf {shown(plan.leaves[form.slot].path)}"
                yield _error("CAD5405", what, expected, f"{form_bytes(form)} bytes", at)


def _bad_snapshots(plan: Plan) -> Iterator[PlanError]:
    """Snapshots that shared bytes could be many times as long as the arena, and all of them are written at load."""
    snapshots = plan.cuda.snapshots if plan.cuda is not None else ()
    for one, other in pairwise(sorted((each for each in snapshots if each.size_bytes), key=lambda each: each.offset)):
        if other.offset < one.offset + one.size_bytes:
            expected = f"bytes from {one.offset + one.size_bytes}, behind {shown(one.name)}"
            got, at = f"bytes from {other.offset}", f"snapshot {shown(other.name)}"
            yield _error("CAD5404", "two things share bytes of the arena", expected, got, at)


# Inputs and outputs: each of a stage has one place for all its captures.


def _io(plan: Plan) -> Iterator[Place]:
    places: dict[tuple[str, str, str, int], int] = {}
    for capture in plan.captures:
        for direction, name, form, offset in _ends_of(plan, capture):
            key = (capture.key.stage, direction, name, offset)
            places[key] = max(places.get(key, 0), form_bytes(form))
    for (stage, direction, name, offset), size in places.items():
        yield Place(offset, offset + size, f"{direction} {name} of {stage}")


def _ends_of(plan: Plan, capture: Capture) -> Iterator[tuple[str, str, Form, int]]:
    tape = plan.tapes[capture.tape]
    for row, form, offset in zip(tape.inputs, capture.key.inputs, capture.input_offsets, strict=True):
        yield "input", row.name, form, offset
    for row, form, offset in zip(tape.outputs, capture.outputs, capture.output_offsets, strict=True):
        yield "output", row.name, form, offset


# What a tape touches of inputs, leaves, weights and constants is within their places.


def _bad_rooms(plan: Plan) -> Iterator[PlanError]:
    weights = {weight.name: tensor_bytes(weight.dtype, weight.sizes) for weight in plan.weights}
    constants = {constant.sha256: constant.size_bytes for constant in plan.constants}
    op_ends = OpEnds()
    split = [_split_ends(tape, op_ends) for tape in plan.tapes]
    seen: set[int] = set()
    for number, capture in enumerate(plan.captures):
        tape = plan.tapes[capture.tape]
        # Weights and constants are the same for all captures of a tape.
        own, shared = split[capture.tape]
        ends = own if capture.tape in seen else own + shared
        seen.add(capture.tape)
        names = (row.name for row in tape.inputs)
        inputs = {name: form_bytes(form) for name, form in zip(names, capture.key.inputs, strict=True)}
        rooms = {"weight": weights, "constant": constants, "input": inputs, "leaf": _slots(plan, capture)}
        for index, end in ends:
            storage = tape.storages[index]
            room = rooms[storage.kind].get(storage.name)
            if room is None or end > room:
                what = f"capture {number} reaches {'outside of' if room is not None else 'for'} a {storage.kind}"
                expected = f"at most {room} bytes" if room is not None else f"a {storage.kind} of the plan"
                at = f"tape {capture.tape}, storage {index} {shown(storage.name)}"
                yield _error("CAD5406", what, expected, f"{end} bytes", at)


def _split_ends(tape: Tape, op_ends: OpEnds) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return how far a tape reaches into its inputs and leaves, and into weights and constants: (storage, bytes)."""
    ends = [(index, end, tape.storages[index].kind) for index, end in storage_ends(tape, op_ends).items()]
    own = [(index, end) for index, end, kind in ends if kind in {"input", "leaf"}]
    return own, [(index, end) for index, end, kind in ends if kind in {"weight", "constant"}]


def _slots(plan: Plan, capture: Capture) -> dict[str, int]:
    """Return the room of each leaf that a capture reads: that of the slot it lies in, its own or another's."""
    forms = ((plan.leaves[leaf].path, plan.forms[form]) for leaf, form in capture.key.state)
    return {path: plan.leaves[form.slot].slot_bytes for path, form in forms if isinstance(form, TensorForm)}


# Scratch: each capture by itself, since captures run one at a time.


def _bad_scratch(plan: Plan, size: int) -> Iterator[PlanError]:
    seen = set()
    lives: dict[int, dict[int, tuple[int, int]]] = {}
    for number, capture in enumerate(plan.captures):
        # As text, since hashes of numbers that a plan chooses can all be the same.
        packing = f"{capture.tape} {capture.scratch}" if capture.scratch else ""
        if packing and packing not in seen:
            seen.add(packing)
            tape = plan.tapes[capture.tape]
            if capture.tape not in lives:
                lives[capture.tape] = lifetimes(tape)
            yield from _bad_packing(tape, capture, size, lives[capture.tape], f"capture {number}")


def _bad_packing(
    tape: Tape, capture: Capture, size: int, lives: Mapping[int, tuple[int, int]], where: str
) -> Iterator[PlanError]:
    indices = [index for index, _ in capture.scratch]
    scratch = [index for index in indices if 0 <= index < len(tape.storages) and tape.storages[index].kind == "scratch"]
    if indices != sorted(set(scratch)):
        expected = "scratch storages of the tape, sorted, each once"
        yield _error("CAD5407", "what is planned is no scratch", expected, shown(indices), where)
        return
    for index, offset in capture.scratch:
        # Each by itself: two of them may share bytes when they live at different times.
        place = Place(offset, offset + tape.storages[index].size_bytes, f"{where}, storage {index}")
        yield from _bad_places("scratch", size, [place])
    yield from _live_overlaps(tape, capture, lives, where)


def _live_overlaps(
    tape: Tape, capture: Capture, lives: Mapping[int, tuple[int, int]], where: str
) -> Iterator[PlanError]:
    """Go through time; let storages come and go, and compare each that comes with those on both sides of it."""
    places = {
        index: Place(offset, offset + tape.storages[index].size_bytes, f"storage {index}")
        for index, offset in capture.scratch
        if index in lives and tape.storages[index].size_bytes
    }
    # What goes at a moment goes before anything comes.
    moments = sorted((at, comes, index) for index in places for comes, at in enumerate(reversed(lives[index])))
    live: list[tuple[int, int]] = []  # (first byte, storage), by place; no two of them overlap
    for moment, comes, index in moments:
        mine = (places[index].lower, index)
        at = bisect_left(live, mine)
        if not comes:
            if live[at : at + 1] == [mine]:
                del live[at]
            continue
        beside = [other for _, other in live[max(at - 1, 0) : at + 1]]
        shared = [other for other in beside if _overlap(places[index], places[other])]
        if shared:
            got = f"storages {shared[0]} and {index}, both alive at op {moment}"
            yield _error("CAD5404", "two things share bytes of the arena", "bytes of their own", got, where)
        else:
            live.insert(at, mine)


def _overlap(one: Place, other: Place) -> bool:
    return one.lower < other.upper and other.lower < one.upper


def lifetimes(tape: Tape) -> dict[int, tuple[int, int]]:
    """Return when each storage of a tape lives, as half-open ranges of op positions; outputs and new leaves are used
    at one position behind the last op. A storage that is never used has none."""
    lives: dict[int, tuple[int, int]] = {}

    def use(index: int, position: int) -> None:
        first = lives[index][0] if index in lives else position
        lives[index] = (first, position + 1)

    for position, op in enumerate(tape.ops):
        for index in (*op.reads, *op.writes):
            use(index, position)
    for row in (*tape.outputs, *tape.state_out):
        if isinstance(row.value, View):
            use(row.value.storage, len(tape.ops))
    return lives
