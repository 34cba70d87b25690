"""Random inputs stay within their range, have their dtype and depend on their seed alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.format.tape import ITEM_BYTES
from cadence_runtime.host.program import StageInput
from cadencec.trace.operands import DTYPES
from cadencec.trace.values import random_tensor


@given(st.integers(-50, 50), st.integers(1, 9), st.integers(0, 2**60))
def test_integers_lie_in_their_range(lower, count, seed):
    values = random_tensor(StageInput("x", "int64", (), lower, lower + count), (40,), seed)
    assert values.dtype == torch.int64
    assert lower <= int(values.min()) <= int(values.max()) < lower + count


@given(st.integers(-50, 50), st.integers(0, 9), st.integers(0, 2**60))
def test_floats_lie_between_the_ends_that_a_spec_gives(lower, width, seed):
    values = random_tensor(StageInput("x", "float64", (), lower, lower + width + 1), (40,), seed)
    assert lower <= float(values.min()) <= float(values.max()) <= lower + width


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_every_dtype_can_be_an_input(dtype):
    item = StageInput("x", dtype, (), 0, 2) if dtype.startswith(("int", "uint", "bool")) else StageInput("x", dtype)
    values = random_tensor(item, (2, 3), 1)
    assert (values.dtype, values.shape, values.is_contiguous()) == (DTYPES[dtype], (2, 3), True)


def test_a_scale_of_zero_is_silence_and_the_process_generator_stays():
    before = torch.get_rng_state()
    item = StageInput("x", "float32")
    assert torch.equal(random_tensor(item, (5,), 3, 0.0), torch.zeros(5))
    assert torch.equal(random_tensor(item, (5,), 3), random_tensor(item, (5,), 3))
    assert not torch.equal(random_tensor(item, (5,), 3), random_tensor(item, (5,), 4))
    assert torch.equal(torch.get_rng_state(), before)
