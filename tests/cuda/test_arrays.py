"""Windows on the device as host arrays: sizes, strides, no dimensions at all, and no elements."""

from typing import Any

import numpy as np
import pytest

from cadence_runtime.cuda.arrays import DeviceArray, span_bytes
from cadence_runtime.format.plan import TensorForm


class Memory:
    """Bytes that count up, in place of a plan on a device."""

    base = 0x1000
    data = np.arange(4096, dtype=np.uint8)

    def read(self, offset: int, size: int) -> "np.ndarray[Any, np.dtype[np.uint8]]":
        return self.data[offset : offset + size].copy()


@pytest.mark.parametrize(
    ("sizes", "strides"), [((), ()), ((3,), (1,)), ((2, 3), (6, 2)), ((0, 4), (4, 1)), ((2, 2), (0, 1))]
)
def test_a_window_has_the_sizes_of_its_form(sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    array = DeviceArray(Memory(), 64, TensorForm("float32", sizes, strides, -1, 2)).numpy()  # type: ignore[arg-type]
    whole = Memory.data[64 + 8 :].view(np.float32)
    bytes_ = tuple(4 * stride for stride in strides)
    assert array.shape == sizes
    assert array.tobytes() == np.lib.stride_tricks.as_strided(whole, sizes, bytes_).tobytes()
    assert array.flags.c_contiguous


def test_the_span_of_a_window() -> None:
    assert span_bytes(TensorForm("float32", (2, 3), (10, 2))) == (10 + 4 + 1) * 4
    assert span_bytes(TensorForm("bfloat16", (), ())) == 2
    assert span_bytes(TensorForm("float32", (0, 3), (3, 1))) == 0


def test_what_other_libraries_see() -> None:
    interface = DeviceArray(Memory(), 64, TensorForm("bfloat16", (2, 3), (8, 1), -1, 1)).__cuda_array_interface__  # type: ignore[arg-type]
    assert interface["data"] == (0x1000 + 64 + 2, True)
    assert (interface["shape"], interface["strides"], interface["typestr"]) == ((2, 3), (16, 2), "<u2")
