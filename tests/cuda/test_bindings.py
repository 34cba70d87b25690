"""The driver's door where there is no driver, and how few calls a launch takes; cuda-bindings is planted."""

from typing import Any

import pytest
from cuda.bindings import driver as cu

from cadence_runtime.cuda import bindings
from cadence_runtime.cuda.bindings import SUCCESS, CudaDriver
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import KernelNode

REFUSED = cu.CUresult.CUDA_ERROR_INVALID_VALUE
PRIORITY, DOMAIN = 8, 10


def test_a_refused_call_has_the_drivers_word_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cu, "cuMemAlloc", lambda size: (cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None))
    with pytest.raises(DeviceError) as caught:
        CudaDriver().allocate(1 << 60)
    assert str(caught.value) == (
        "CAD8001: the CUDA driver refused `cuMemAlloc`\n"
        "  expected: CUDA_SUCCESS\n"
        "  got:      CUDA_ERROR_OUT_OF_MEMORY\n"
        "  hint:     free device memory, or load a plan with fewer resident keys"
    )


def added(
    monkeypatch: pytest.MonkeyPatch, driver: CudaDriver, answer: Any, *attributes: tuple[int, bytes]
) -> list[int]:
    """Add a launch; return the attributes that were set. `answer` is what the driver tells of a fresh node."""
    told: list[int] = []
    monkeypatch.setattr(cu, "cuGraphAddKernelNode", lambda *_: (SUCCESS, cu.CUgraphNode(7)))
    monkeypatch.setattr(cu, "cuGraphKernelNodeGetAttribute", lambda *_: answer)

    def set_attribute(node: Any, attribute: Any, value: Any) -> tuple[Any]:
        told.append(int(attribute))
        return (SUCCESS,)

    monkeypatch.setattr(cu, "cuGraphKernelNodeSetAttribute", set_attribute)
    node = KernelNode(0, (1, 2, 3), (4, 5, 6), 0, b"", attributes)
    driver.add_kernel(cu.CUgraph(1), [], node, cu.CUfunction(3), 0)
    return told


def test_an_attribute_that_a_fresh_node_has_is_not_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, fresh = CudaDriver(), cu.CUkernelNodeAttrValue()
    same, other = (PRIORITY, bytes(bindings.ATTRIBUTE_BYTES)), (PRIORITY, b"\1".ljust(bindings.ATTRIBUTE_BYTES, b"\0"))
    assert added(monkeypatch, driver, (SUCCESS, fresh), same) == []
    assert added(monkeypatch, driver, (SUCCESS, fresh), other) == [PRIORITY]


def test_an_attribute_that_the_driver_does_not_tell_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert added(monkeypatch, CudaDriver(), (REFUSED, None), (DOMAIN, bytes(bindings.ATTRIBUTE_BYTES))) == [DOMAIN]
