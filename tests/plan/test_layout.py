"""Everything in the arena is aligned, in order and apart, and every form fits its slot."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.format.plan import Capture, Key, TensorForm
from cadence_runtime.format.tape import Binding, Literal, Tape, View
from cadence_runtime.host.program import Region, Retention
from cadencec.plan.layout import in_a_row, place_io, sections, slots
from cadencec.trace.leaves import Declared, Leaves
from cadencec.trace.state import contiguous_form, form_bytes

SIZES = st.lists(st.integers(0, 3000), max_size=8)


@given(SIZES)
def test_what_lies_in_a_row_is_aligned_and_apart(sizes):
    row = in_a_row(sizes)
    assert all(offset % 256 == 0 for offset in row.offsets)
    ends = [offset + size for offset, size in zip(row.offsets, sizes, strict=True)]
    assert all(end <= after for end, after in zip(ends, [*row.offsets[1:], row.size_bytes], strict=False))


def leaves(count: int) -> Leaves:
    region = Region("r", (), "float32", (1,), None, None, 1, Retention("fixed", None))
    return Leaves(tuple(Declared(f"l{i}", f"l{i}", region, None, 0) for i in range(count)), lambda name: None)


FORMS = st.builds(
    lambda sizes, slot, offset: TensorForm("int16", tuple(sizes), tuple(2 for _ in sizes), slot, offset),
    st.lists(st.integers(0, 40), max_size=2),
    st.integers(0, 2),
    st.integers(0, 31),
)


@given(st.lists(FORMS, max_size=8))
def test_a_slot_holds_each_of_its_forms(forms):
    found, size_bytes = slots(leaves(3), [*forms, Literal("none", "")])
    for form in forms:
        assert form_bytes(form) <= found[form.slot].slot_bytes
    ends = [(leaf.slot_offset, leaf.slot_offset + leaf.slot_bytes) for leaf in found]
    assert all(upper <= lower for (_, upper), (lower, _) in itertools.pairwise([*ends, (size_bytes, size_bytes)]))


def tape(stage: str, inputs: str, outputs: str) -> Tape:
    view = View(0, "float32", (), (), 0)
    return Tape(
        stage,
        (),
        tuple(Binding(name, view) for name in inputs),
        (),
        (),
        tuple(Binding(name, view) for name in outputs),
        (),
    )


def capture(stage: str, index: int, inputs: list[int], outputs: list[int]) -> Capture:
    forms = tuple(contiguous_form("float32", (size,)) for size in inputs)
    made = tuple(contiguous_form("float32", (size,)) for size in outputs)
    return Capture(Key(stage, (), forms, ()), index, (), made, (), (), ())


def test_a_name_of_a_stage_has_one_place_for_all_captures():
    tapes = [tape("encode", "ab", "m"), tape("vocode", "m", "y")]
    captures = [
        capture("encode", 0, [3, 70], [100]),
        capture("vocode", 1, [100], [9]),
        capture("encode", 0, [90, 7], [10]),
    ]
    placed, size_bytes = place_io(captures, tapes)
    assert [c.input_offsets for c in placed] == [(0, 512), (1536,), (0, 512)]
    assert [c.output_offsets for c in placed] == [(1024,), (2048,), (1024,)]
    assert size_bytes == 2304


def test_a_literal_input_takes_no_room():
    found = capture("step", 0, [4, 4], [])
    key = Key("step", (), (found.key.inputs[0], Literal("bool", "true")), ())
    placed, size_bytes = place_io([Capture(key, 0, (), (), (), (), ())], [tape("step", "ab", "")])
    assert (placed[0].input_offsets, size_bytes) == ((0, 256), 256)


def test_sections_follow_one_another():
    found = sections({"weights": 300, "constants": 0, "state": 256, "io": 1}, 1000, 900, "start")
    assert [(s.name, s.offset, s.size_bytes, s.lower_bound) for s in found] == [
        ("weights", 0, 300, 300),
        ("constants", 512, 0, 0),
        ("state", 512, 256, 256),
        ("io", 768, 1, 1),
        ("scratch", 1024, 1000, 900),
    ]
