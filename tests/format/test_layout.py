"""The arena checker finds what a brute force finds, and passes what the planner plans."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.format.layout import MAX_ARENA_BYTES, form_bytes, layout_errors
from cadence_runtime.format.plan import Capture, Key, Plan, Section, TensorForm
from cadence_runtime.format.tape import Binding, Literal, Op, Storage, Tape, View
from cadencec.arena.lifetimes import buffers
from cadencec.arena.planner import plan as pack
from tests.format.plans import cuda_example, example

PLAN = example()


def codes(plan: Plan) -> list[str]:
    return [error.code for error in layout_errors(plan)]


# Random tapes that only say who reads and writes what.


@st.composite
def tapes(draw: st.DrawFn) -> Tape:
    count = draw(st.integers(1, 8))
    storages = tuple(Storage("scratch", "", draw(st.integers(0, 1000))) for _ in range(count))
    indices = st.lists(st.integers(0, count - 1), max_size=3, unique=True).map(lambda found: tuple(sorted(found)))
    ops = draw(st.lists(st.builds(lambda r, w: Op("aten::x", (), (), (), r, w, ""), indices, indices), max_size=8))
    kept = draw(st.lists(st.integers(0, count - 1), max_size=2, unique=True))
    rows = tuple(Binding(f"h{index}", View(index, "uint8", (), (), 0)) for index in kept)
    return Tape("step", storages, (), (), tuple(ops), (), rows)


def with_scratch(tape: Tape, offsets: dict[int, int]) -> Plan:
    """A plan of one capture, whose layout alone is looked at."""
    capture = Capture(Key("step", (), (), ()), 0, (), (), (), (), tuple(sorted(offsets.items())))
    sections = (*PLAN.sections[:-1], replace(PLAN.sections[-1], size_bytes=1 << 20))
    sized = tuple(replace(storage, size_bytes=max(storage.size_bytes, 1)) for storage in tape.storages)
    tape = replace(tape, storages=sized)
    return replace(PLAN, tapes=(tape,), captures=(capture,), sections=sections, leaves=(), forms=(), nodes=())


@given(tapes())
def test_what_the_planner_plans_passes(tape):
    plan = with_scratch(tape, {})
    planned = range(len(tape.storages))
    packing = pack(buffers(plan.tapes[0], planned))
    assert codes(with_scratch(tape, dict(zip(planned, packing.offsets, strict=True)))) == []


@given(tapes(), st.data())
def test_every_collision_is_found_and_no_other(tape, data):
    offsets = {i: 256 * data.draw(st.integers(0, 5)) for i in range(len(tape.storages))}
    plan = with_scratch(tape, offsets)
    assert ("CAD5404" in codes(plan)) == collide(plan.tapes[0], offsets)


def collide(tape: Tape, offsets: dict[int, int]) -> bool:
    """Whether some byte holds two storages at some op, by counting bytes at every op."""
    uses = [set(op.reads) | set(op.writes) for op in tape.ops]
    uses.append({row.value.storage for row in tape.state_out if isinstance(row.value, View)})
    for moment in range(len(uses)):
        taken: set[int] = set()
        for index, offset in offsets.items():
            alive = any(index in use for use in uses[: moment + 1]) and any(index in use for use in uses[moment:])
            own = set(range(offset, offset + tape.storages[index].size_bytes)) if alive else set()
            if taken & own:
                return True
            taken |= own
    return False


def test_storages_that_live_one_after_the_other_share_bytes():
    capture = PLAN.captures[1]
    assert dict(capture.scratch)[4] == dict(capture.scratch)[6]
    assert codes(PLAN) == []


# Sections, slots, inputs and outputs.


def with_section(name: str, **changes: object) -> Plan:
    sections = (replace(s, **changes) if s.name == name else s for s in PLAN.sections)  # type: ignore[arg-type]
    return replace(PLAN, sections=tuple(sections))


@pytest.mark.parametrize(
    "sections",
    [
        (),
        PLAN.sections[1:],
        (*PLAN.sections, replace(PLAN.sections[-1], offset=1 << 20)),
        (PLAN.sections[1], PLAN.sections[0], *PLAN.sections[2:]),
        (*PLAN.sections[:-1], Section("scratch", MAX_ARENA_BYTES, 1, 1, "x")),
    ],
)
def test_the_five_sections_are_there_in_order(sections):
    assert set(codes(replace(PLAN, sections=sections))) == {"CAD5401"}


@pytest.mark.parametrize("name", ["weights", "constants", "state", "io", "scratch"])
def test_nothing_reaches_behind_its_section(name):
    assert "CAD5403" in codes(with_section(name, size_bytes=8))


def test_sections_are_aligned():
    sections = (*PLAN.sections[:-1], replace(PLAN.sections[-1], offset=PLAN.sections[-1].offset + 8))
    assert codes(replace(PLAN, sections=sections)) == ["CAD5402"]


def test_inputs_and_outputs_have_places_of_their_own():
    captures = (PLAN.captures[0], *(replace(c, output_offsets=c.input_offsets) for c in PLAN.captures[1:]))
    assert codes(replace(PLAN, captures=captures)) == ["CAD5404"]


def test_an_input_and_an_output_of_two_stages_have_places_of_their_own():
    other = replace(PLAN.tapes[1], stage="other")
    capture = replace(PLAN.captures[1], key=replace(PLAN.captures[1].key, stage="other"), tape=len(PLAN.tapes))
    plan = replace(PLAN, tapes=(*PLAN.tapes, other), captures=(*PLAN.captures, capture))
    assert set(codes(plan)) == {"CAD5404"}


def test_slots_do_not_overlap():
    assert codes(replace(PLAN, leaves=(*PLAN.leaves, replace(PLAN.leaves[0], path="other")))) == ["CAD5404"]


def test_a_tied_leaf_lies_in_the_slot_of_another():
    """A form of one leaf may lie in another's slot, at an offset, as long as it fits there."""
    room = PLAN.leaves[0].slot_bytes // 4
    tied = TensorForm("float32", (4,), (1,), 0, room - 4)
    assert codes(replace(PLAN, forms=(*PLAN.forms, tied))) == []
    assert codes(replace(PLAN, forms=(*PLAN.forms, replace(tied, offset=room - 3)))) == ["CAD5405"]


def test_a_tape_stays_inside_the_slot_that_its_leaf_has():
    tape = PLAN.tapes[1]
    wide = replace(tape.state_in[0].value, offset=20)  # type: ignore[type-var]
    tapes_ = (PLAN.tapes[0], replace(tape, state_in=(Binding("kv", wide),)), *PLAN.tapes[2:])
    assert codes(replace(PLAN, tapes=tapes_)) == ["CAD5406"]


@pytest.mark.parametrize(
    ("form", "size"),
    [
        (Literal("none", ""), 0),
        (TensorForm("float32", (), (), 0, 3), 16),
        (TensorForm("float64", (2, 0), (1, 1), 0, 3), 0),
        (TensorForm("int16", (3, 2), (10, 1), 0, 1), 2 * (1 + 20 + 1 + 1)),
        (TensorForm("int16", (5,), (0,)), 2),
    ],
)
def test_how_far_a_form_reaches(form, size):
    assert form_bytes(form) == size


def test_a_cuda_plan_has_a_library_section_behind():
    assert codes(cuda_example()) == []
