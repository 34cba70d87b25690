"""Arrays of the CUDA player: numpy on the host, windows on the arena on the device.

numpy has no bfloat16 and no eight-bit floats: such arrays carry their raw bits, as uint16 and uint8.
"""

import numpy as np
import numpy.typing as npt

from cadence_runtime.cuda.resident import Resident
from cadence_runtime.format.plan import TensorForm
from cadence_runtime.format.tape import ITEM_BYTES
from cadence_runtime.frozen import frozen

HostArray = npt.NDArray[np.generic]

RAW_BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8", "complex32": "uint32"}
"""The numpy dtype that carries the bits of a dtype which numpy does not have."""


def numpy_dtype(dtype: str) -> np.dtype[np.generic]:
    """Return the numpy dtype for a dtype of a plan."""
    return np.dtype(RAW_BITS.get(dtype, dtype))


@frozen
class DeviceArray:
    """A window on the arena, valid until the session's next push or the plan's close. It speaks the CUDA array
    interface, so that torch or cupy in the same process can read it without a copy."""

    resident: Resident
    offset: int
    form: TensorForm

    @property
    def pointer(self) -> int:
        """The device address of the first element."""
        return self.resident.base + self.offset + self.form.offset * ITEM_BYTES[self.form.dtype]

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        item = ITEM_BYTES[self.form.dtype]
        return {
            "shape": self.form.sizes,
            "strides": tuple(stride * item for stride in self.form.strides),
            "typestr": numpy_dtype(self.form.dtype).str,
            "data": (self.pointer, True),
            "version": 3,
            "stream": 2,
        }

    def numpy(self) -> HostArray:
        """Return a copy on the host, once the work that makes it is done."""
        size = span_bytes(self.form)
        raw = self.resident.read(self.offset + self.form.offset * ITEM_BYTES[self.form.dtype], size)
        return np.array(strided(raw, self.form), order="C")  # keeps no dimensions where there are none


def span_bytes(form: TensorForm) -> int:
    """Return how many bytes lie between the first byte of a tensor and the last."""
    if 0 in form.sizes:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(form.sizes, form.strides, strict=True))
    return (last + 1) * ITEM_BYTES[form.dtype]


def strided(raw: npt.NDArray[np.uint8], form: TensorForm) -> HostArray:
    """Return host bytes, from the first element on, as an array of the form's sizes and strides."""
    dtype = numpy_dtype(form.dtype)
    strides = tuple(stride * dtype.itemsize for stride in form.strides)
    if 0 in form.sizes:
        return np.empty(form.sizes, dtype)
    return np.lib.stride_tricks.as_strided(raw.view(dtype), form.sizes, strides)
