"""The driver's records byte by byte against those of cuda-bindings, and a machine without a driver."""

import ctypes

import pytest
from cuda.bindings import driver as cu

from cadence_runtime.cuda import libcuda
from cadence_runtime.cuda.bindings import DEVICE_MEMORY, CudaDriver, copy_record
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import MemcpyNode


def same_bytes(made: ctypes.Structure, reference: object) -> bool:
    """Return whether a record is what cuda-bindings would hand to the driver."""
    address = reference.getPtr()  # type: ignore[attr-defined]
    return bytes(made) == ctypes.string_at(address, ctypes.sizeof(made))


def test_a_launch() -> None:
    made = libcuda.KernelParams(0x11, (1, 2, 3), (4, 5, 6), 7, 0x22)
    reference = cu.CUDA_KERNEL_NODE_PARAMS()
    reference.func = cu.CUfunction(0x11)
    reference.gridDimX, reference.gridDimY, reference.gridDimZ = 1, 2, 3
    reference.blockDimX, reference.blockDimY, reference.blockDimZ = 4, 5, 6
    reference.sharedMemBytes = 7
    reference.kernelParams = 0x22
    assert same_bytes(made, reference)


def test_a_fill() -> None:
    made = libcuda.MemsetParams(0x11, 1, 2, 4, 5, 6)
    reference = cu.CUDA_MEMSET_NODE_PARAMS()
    reference.dst, reference.pitch, reference.value = 0x11, 1, 2
    reference.elementSize, reference.width, reference.height = 4, 5, 6
    assert same_bytes(made, reference)


def test_a_copy() -> None:
    made = copy_record(MemcpyNode(1, 2, 3, 4, 5, 6, 7, 0), 0x11, 0x22)
    reference = cu.CUDA_MEMCPY3D()
    reference.srcMemoryType = reference.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
    reference.dstDevice, reference.srcDevice = 0x11, 0x22
    reference.WidthInBytes, reference.Height, reference.Depth = 1, 2, 3
    reference.dstPitch, reference.dstHeight, reference.srcPitch, reference.srcHeight = 4, 5, 6, 7
    assert same_bytes(made, reference)


def test_memory() -> None:
    here = libcuda.Location(1, 3)
    reference = cu.CUmemAllocationProp()
    reference.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    reference.location.type, reference.location.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 3
    assert same_bytes(libcuda.AllocationProp(1, 0, here), reference)
    access = cu.CUmemAccessDesc()
    access.location = reference.location
    access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    assert same_bytes(libcuda.AccessDesc(here, 3), access)


def test_an_edge() -> None:
    reference = cu.CUgraphEdgeData()
    reference.from_port, reference.to_port, reference.type = 1, 2, 1
    assert same_bytes(libcuda.EdgeData(1, 2, 1), reference)


def test_numbers_are_those_of_the_header() -> None:
    attribute = cu.CUdevice_attribute
    assert int(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 75
    assert int(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == 76
    assert int(cu.CUmemorytype.CU_MEMORYTYPE_DEVICE) == DEVICE_MEMORY
    assert int(cu.CUstream_flags.CU_STREAM_NON_BLOCKING) == 1


def refused(monkeypatch: pytest.MonkeyPatch, library: object) -> str:
    def opened(name: str) -> object:
        if isinstance(library, OSError):
            raise library
        return library

    monkeypatch.setattr(libcuda.ctypes, "CDLL", opened)
    with pytest.raises(DeviceError) as caught:
        CudaDriver().open(0)
    return str(caught.value)


def test_a_machine_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = OSError("libcuda.so.1: cannot open shared object file: No such file or directory")
    assert refused(monkeypatch, missing) == (
        "CAD8002: no CUDA driver on this machine\n"
        "  expected: libcuda.so.1\n"
        "  got:      libcuda.so.1: cannot open shared object file: no such file or directory\n"
        "  hint:     install the NVIDIA driver, or load a plan for the cpu target"
    )


def test_a_driver_that_lacks_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(monkeypatch, object()) == (
        "CAD8005: the CUDA driver does not know `cuInit`\n"
        "  expected: a driver for CUDA 12.4 or newer\n"
        "  got:      an older one\n"
        "  hint:     update the NVIDIA driver"
    )


def test_a_refused_call_has_the_drivers_word_for_it() -> None:
    cuda = libcuda.LibCuda.__new__(libcuda.LibCuda)

    def name_of(code: int, at: int) -> int:
        ctypes.c_void_p.from_address(at).value = ctypes.cast(ctypes.c_char_p(NAME), ctypes.c_void_p).value
        return 0

    cuda._functions = {"cuMemAlloc_v2": lambda *_: 2, "cuGetErrorName": name_of}  # type: ignore[dict-item]
    with pytest.raises(DeviceError) as caught:
        cuda.made("cuMemAlloc_v2", 1 << 60)
    assert str(caught.value) == (
        "CAD8001: the CUDA driver refused `cuMemAlloc`\n"
        "  expected: CUDA_SUCCESS\n"
        "  got:      CUDA_ERROR_OUT_OF_MEMORY\n"
        "  hint:     free device memory, or load a plan with fewer resident keys"
    )


NAME = b"CUDA_ERROR_OUT_OF_MEMORY"
