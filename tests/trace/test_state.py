"""State as leaves and forms: nests come apart and together, and canonical placement keeps all that a stage can see."""

from collections import namedtuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.errors import TraceError
from cadence_runtime.format.plan import TensorForm
from cadence_runtime.format.tape import ITEM_BYTES, Literal
from cadencec.trace.state import ALIGNMENT_BYTES, flatten, form_bytes, forms_of, place, rebuild, skeleton, structure

Pair = namedtuple("Pair", "a b")


def test_leaves_have_paths():
    k, v, h = torch.zeros(1), torch.ones(2), torch.zeros(3)
    state = {"kv": (k, v), "layers": [{"h": h}, {"h": None}], "pos": 3, "pair": Pair(k, None), 7: True}
    assert list(flatten(state).items()) == [
        ("kv.0", k),
        ("kv.1", v),
        ("layers.0.h", h),
        ("layers.1.h", None),
        ("pos", 3),
        ("pair.0", k),
        ("pair.1", None),
        ("7", True),
    ]
    assert list(flatten(h)) == ["."]


LEAVES = st.one_of(st.none(), st.integers(0, 9), st.just("tensor").map(lambda _: torch.rand(2)))
NESTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.tuples(inner, inner).map(lambda pair: Pair(*pair)),
    ),
    max_leaves=8,
)


@given(NESTS)
def test_a_nest_comes_apart_and_together(state):
    leaves = flatten(state)
    again = rebuild(skeleton(state), leaves.get)
    assert structure(again) == structure(state)
    assert list(flatten(again)) == list(leaves)
    assert all(flatten(again)[path] is value for path, value in leaves.items())


def test_a_container_that_is_held_twice_stays_one():
    shared = [torch.zeros(1)]
    again = rebuild({"a": shared, "b": shared}, lambda path: path)
    assert again["a"] is again["b"]
    assert again["a"] is not shared


def test_structure_tells_none_from_a_container():
    assert structure({"c": None}) != structure({"c": (None, None)})
    assert structure({"a": 1, "b": None}) == structure({"b": None, "a": 2})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"scale": 0.5},
            "CAD3501: the state holds something that is no leaf at `scale`\n"
            "  expected: dicts, lists, tuples, None, ints and tensors\n"
            "  got:      `float`\n"
            "  hint:     keep it on the model if it never changes, else make it a tensor",
        ),
        (
            {"cache": object()},
            "CAD3501: the state holds something that is no leaf at `cache`\n"
            "  expected: dicts, lists, tuples, None, ints and tensors\n"
            "  got:      `object`\n"
            "  hint:     return its tensors in dicts, lists and tuples",
        ),
        (
            {"a": {"b": 1}, "a.b": 2},
            "CAD3508: two leaves have the path `a.b`\n  expected: keys that stay apart as text",
        ),
        (
            {"a": {(1, 2): 1}},
            "CAD3508: a key at `a` is a `tuple`\n  expected: keys that are texts or ints",
        ),
    ],
)
def test_what_is_no_state(state, message):
    with pytest.raises(TraceError) as caught:
        flatten(state)
    assert str(caught.value) == message


def test_a_state_that_holds_itself():
    state = {"a": []}
    state["a"].append(state)
    with pytest.raises(TraceError) as caught:
        flatten(state)
    assert str(caught.value) == "CAD3508: the state holds itself at `a.0`\n  expected: a nest with an end"


def test_a_slice_keeps_strides_and_its_place():
    full = torch.rand(1, 3, 22)
    (form,) = forms_of([full[:, :, 4:]])
    assert form == TensorForm("float32", (1, 3, 18), (66, 22, 1), 0, 4)
    assert form_bytes(form) == (4 + 2 * 22 + 18) * 4


def test_the_offset_is_kept_modulo_the_alignment():
    full = torch.rand(100)
    assert forms_of([full[16:20]]) == forms_of([full[:4]])
    assert forms_of([full[17:20]])[0].offset == 1


def test_leaves_that_overlap_are_tied_and_others_are_not():
    ring = torch.zeros(4, 8)
    forms = forms_of([ring[2:], ring[1:3], torch.zeros(2), ring[0], ring[3:3]])
    assert [form.slot for form in forms] == [0, 0, 2, 3, 4]
    assert (forms[0].offset, forms[1].offset) == (16, 8)


def test_interleaved_leaves_share_a_slot():
    kv = torch.zeros(3, 2)
    assert [form.slot for form in forms_of([kv[:, 0], kv[:, 1]])] == [0, 0]


def test_leaves_that_are_no_tensors():
    assert forms_of([None, 3, True]) == (Literal("none", ""), Literal("int", "3"), Literal("bool", "true"))


def test_a_contiguous_leaf_has_a_slot_of_its_own():
    full = torch.zeros(2, 6)
    forms = forms_of([full[:, 2:], full], contiguous=(True, False))
    assert forms[0] == TensorForm("float32", (2, 4), (4, 1), 0, 0)
    assert forms[1].slot == 1


def test_an_expanded_leaf_keeps_its_stride():
    value = torch.rand(1, 4).expand(3, 4)
    forms = forms_of([value])
    (placed,) = place(forms, [value])
    assert placed.stride() == (0, 1)
    assert torch.equal(placed, value)


DTYPES = st.sampled_from(["float32", "bfloat16", "complex64", "int16", "bool", "float64"])


@st.composite
def views(draw):
    """Several views of one buffer, of one dtype, with what may be awkward: offsets, strides, no elements."""
    dtype = getattr(torch, draw(DTYPES))
    base = torch.randint(0, 100, (96,)).to(dtype)
    found = []
    for _ in range(draw(st.integers(1, 4))):
        sizes = draw(st.lists(st.integers(0, 3), max_size=3))
        strides = [draw(st.integers(0, 9)) for _ in sizes]
        found.append(base.as_strided(sizes, strides, draw(st.integers(0, 40))))
    return found


@given(views())
def test_placement_keeps_values_forms_and_ties(leaves):
    forms = forms_of(leaves)
    placed = place(forms, leaves)
    assert forms_of(placed) == forms
    for form, before, after in zip(forms, leaves, placed, strict=True):
        assert torch.equal(before, after)
        assert before.stride() == after.stride()
        if before.numel():
            offset_bytes = before.storage_offset() * before.element_size()
            assert (form.offset * ITEM_BYTES[form.dtype] - offset_bytes) % ALIGNMENT_BYTES == 0
    storages = {form.slot: after.untyped_storage()._cdata for form, after in zip(forms, placed, strict=True)}
    assert len(set(storages.values())) == len(storages)
