"""Weights leave a plan for a file of their own, and nothing else changes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load

from cadence_runtime.format.plan import Constant, Plan, Weight
from cadencec.compile.export import export_weights, without_unused_blobs
from cadencec.plan.compile import compile_spec
from cadencec.spec import load_spec

CASE_01 = Path(__file__).resolve().parents[1] / "cases" / "01_growing_kv_cat.yaml"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile_spec(load_spec(CASE_01, {"horizon": "1 events"}), embed_weights=True).plan


def test_the_file_holds_the_bits_that_the_plan_held(plan: Plan) -> None:
    exported = export_weights(plan, "case")
    assert exported is not None
    tensors = load(exported.data)
    assert {name: tensor.tobytes() for name, tensor in tensors.items()} == {
        weight.name: plan.blobs[weight.blob] for weight in plan.weights if weight.blob is not None
    }
    assert all(weight.blob is None for weight in exported.plan.weights)
    assert exported.plan.weights_file == exported.file_name
    assert exported.file_name.startswith("case.") and exported.file_name.endswith(".safetensors")
    back = {"weights": plan.weights, "weights_file": None, "blobs": plan.blobs, "constants": plan.constants}
    assert replace(exported.plan, **back) == plan


def test_the_name_follows_from_the_content(plan: Plan) -> None:
    first = plan.weights[0].blob
    assert first is not None
    other = replace(plan, blobs=tuple(bytes(len(b)) if i == first else b for i, b in enumerate(plan.blobs)))
    names = {exported.file_name for p in (plan, plan, other) if (exported := export_weights(p, "case"))}
    assert len(names) == 2


def test_a_plan_that_names_a_release_keeps_the_rest_inside(plan: Plan) -> None:
    assert export_weights(replace(plan, weights_file="flow.safetensors"), "case") is None


def test_what_no_such_file_can_hold_stays_inside(plan: Plan) -> None:
    odd = Weight("odd", "complex64", (1,), "0" * 64, 0, len(plan.blobs))
    exported = export_weights(replace(plan, weights=(*plan.weights, odd), blobs=(*plan.blobs, b"complex!")), "case")
    assert exported is not None and exported.plan.blobs[exported.plan.weights[-1].blob or 0] == b"complex!"


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "uint64", "float16", "bfloat16", "float8_e4m3fn", "float64"]
)
@pytest.mark.parametrize("sizes", [(), (2, 3), (0, 4)])
def test_every_dtype_and_shape_survives(plan: Plan, dtype: str, sizes: tuple[int, ...]) -> None:
    from cadence_runtime.format.tape import ITEM_BYTES

    data = bytes(range(1, 1 + ITEM_BYTES[dtype] * int(np.prod(sizes))))
    data = bytes(byte % 2 for byte in data) if dtype == "bool" else data
    weight = Weight("w", dtype, sizes, "0" * 64, 0, 0)
    exported = export_weights(replace(plan, weights=(weight,), constants=(), blobs=(data,)), "w")
    assert exported is not None and exported.data.endswith(data)


@given(st.lists(st.integers(0, 5), max_size=6), st.lists(st.integers(0, 5), max_size=6))
def test_owners_keep_their_bytes(plan: Plan, weights: list[int], constants: list[int]) -> None:
    blobs = tuple(bytes([i]) for i in range(6))
    plan = replace(
        plan,
        blobs=blobs,
        weights=tuple(Weight(str(i), "uint8", (1,), "", 0, blob) for i, blob in enumerate(weights)),
        constants=tuple(Constant(str(i), 1, 0, blob) for i, blob in enumerate(constants)),
    )
    kept = without_unused_blobs(plan)
    assert [kept.blobs[w.blob or 0] for w in kept.weights] == [blobs[blob] for blob in weights]
    assert [kept.blobs[c.blob] for c in kept.constants] == [blobs[blob] for blob in constants]
    assert set(kept.blobs) == {blobs[blob] for blob in (*weights, *constants)}
    assert list(kept.blobs) == sorted(kept.blobs)
