"""Manifests that Hypothesis makes, by the page's schema and by changing the tree of a valid one."""

import json
from copy import deepcopy
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cadence_runtime.errors import CadenceError, ErrorList
from cadence_runtime.format.manifest import MANIFEST, decode_manifest
from cadence_runtime.format.reader import read_plan
from cadence_runtime.format.writer import encode_plan
from tests.format.forge import join, sections
from tests.format.plans import cuda_example, example
from tests.format.second_reader import Refused, manifest, read
from tests.format.second_reader.tapes import DTYPES
from tests.fuzz.plans import places

MOST = 2**63 - 1
PLANS = {"cpu": example(steps=1), "cuda": cuda_example(), "weights file": example(steps=2, embed=False)}
SECTIONS = {name: sections(plan) for name, plan in PLANS.items()}
DOCUMENTS = {name: json.loads(parts["manifest"]) for name, parts in SECTIONS.items()}

TEXT = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=8)
FRACTIONS = st.builds(Fraction, st.integers(0, 10**19 - 1), st.integers(1, 10**19 - 1))
EXPRESSIONS = ["n", "0", "n + 1", "buf >= 8 and not phase == 0", "min(28, buf)", "2 * (tok - 3)", "a // 2 % 3"]
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "bool": st.booleans(),
    "int": st.integers(-MOST, MOST),
    "count": st.integers(0, MOST),
    "index": st.integers(-1, MOST),
    "scalar": st.booleans() | st.integers(-MOST, MOST) | TEXT,
    "fraction": FRACTIONS.map(str),
    "expression": st.sampled_from(EXPRESSIONS),
    "digest": st.text("0123456789abcdef", min_size=64, max_size=64),
    "dtype": st.sampled_from(DTYPES),
    "dtype_or_none": st.sampled_from(["", *DTYPES]),
}


def made(kind: str) -> st.SearchStrategy[Any]:
    """Return values of a kind of the page's schema."""
    if kind.endswith("?"):
        return st.none() | made(kind[:-1])
    if kind.startswith("["):
        return st.lists(made(kind[1:-1].partition(":")[2] or kind[1:-1]), max_size=2)
    if kind.startswith("("):
        return st.tuples(*map(made, kind[1:-1].split(","))).map(list)
    if kind == "form":
        return st.builds(dict, tensor=made("tensor_form")) | st.builds(dict, literal=made("literal"))
    if kind in manifest.OBJECTS:
        return st.fixed_dictionaries({name: made(each) for name, each in manifest.OBJECTS[kind].items()})
    return SCALARS[kind] if kind in SCALARS else st.sampled_from(kind.split("|"))


def canonical(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode(
        errors="surrogatepass"
    )


@settings(max_examples=60)
@given(made("manifest"))
def test_what_follows_the_schema_is_decoded_and_comes_back(document: Any) -> None:
    data = canonical(document)
    assert canonical(MANIFEST.encode(decode_manifest(data))) == data
    assert manifest.decode(data)["target"] == document["target"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, Any]:
    """Return the name of a plan, and its manifest with one to three changes of its tree."""
    name = draw(st.sampled_from(sorted(DOCUMENTS)))
    document = deepcopy(DOCUMENTS[name])
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(places(document)))
        match draw(st.sampled_from(["replace", "near", "copy", "drop", "double", "rename", "wrap", "reverse"])):
            case "replace":
                holder[key] = draw(JSON)
            case "near" if type(holder[key]) is int:
                holder[key] += draw(st.sampled_from([-256, -64, -1, 1, 64, 256, 2**31, 2**62]))
            case "copy":
                other, place = draw(st.sampled_from(places(document)))
                holder[key] = deepcopy(other[place])
            case "drop":
                del holder[key]
            case "double" if isinstance(holder, list):
                holder.insert(key, deepcopy(holder[key]))
            case "rename" if isinstance(holder, dict):
                holder[draw(st.sampled_from(["name", "offset", key + "_"]))] = holder.pop(key)
            case "wrap":
                holder[key] = [holder[key]]
            case _ if isinstance(holder[key], list):
                holder[key].reverse()
    return name, document


@settings(max_examples=400)
@given(changed())
def test_a_changed_manifest_is_valid_for_both_readers_or_for_none(case: tuple[str, Any]) -> None:
    name, document = case
    data = join(SECTIONS[name] | {"manifest": canonical(document)})
    try:
        plan = read_plan(data, decompress=None)
    except CadenceError as error:
        singles = error.errors if isinstance(error, ErrorList) else (error,)
        assert all(each.code.startswith("CAD5") and each.code != "CAD5017" for each in singles)
        assert all(line.isprintable() for line in str(error).splitlines())
        with pytest.raises(Refused):
            read(data)
    else:
        assert encode_plan(plan) == data
        assert read(data)["target"] == plan.target
