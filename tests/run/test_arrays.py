"""Outputs as arrays that a file can hold."""

import pytest
import torch

from cadence_runtime.errors import UsageError
from cadencec.run.drive import as_array


def test_a_dtype_that_numpy_does_not_have() -> None:
    with pytest.raises(UsageError) as caught:
        as_array("y", torch.zeros(2, dtype=torch.bfloat16))
    assert str(caught.value) == (
        "CAD9124: output `y` has a dtype that no file can hold\n  expected: a dtype of numpy\n  got:      bfloat16"
    )
