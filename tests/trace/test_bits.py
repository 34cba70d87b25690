"""Equality of bits, and the bytes behind it."""

import torch

from cadencec.trace.bits import raw_bytes, same_bits


def test_one_element_has_bytes_whatever_its_strides_say() -> None:
    odd = torch.tensor([1.0, 2.0, 3.0]).as_strided((1,), (2,))
    assert odd.stride() == (2,)
    assert torch.equal(raw_bytes(odd), raw_bytes(torch.tensor([1.0])))


def test_zero_and_minus_zero_differ_and_a_nan_equals_itself() -> None:
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert same_bits(torch.tensor([float("nan")]), torch.tensor([float("nan")]))


def test_strides_and_dtypes_count() -> None:
    square = torch.zeros(2, 2)
    assert not same_bits(square, square.t())
    assert not same_bits(torch.zeros(2), torch.zeros(2, dtype=torch.int32))
