"""libcuda by ctypes: the calls that a replay needs, their records, and errors by name.

Nothing else is imported, so that a process is at its first launch soon: a package of bindings takes longer to import
than a plan takes to load.
"""

import ctypes
from ctypes import Structure, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_ushort, c_void_p

from cadence_runtime.cuda.driver import driver_error
from cadence_runtime.errors import DeviceError

HINTS = {
    "CUDA_ERROR_OUT_OF_MEMORY": "free device memory, or load a plan with fewer resident keys",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "the device's context is lost: close every session of this process and load again",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the plan was compiled for another GPU: `cadencec check` says for which",
}

CALLS: dict[str, tuple[object, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (c_void_p,),
    "cuDeviceGet": (c_void_p, c_int),
    "cuDeviceGetName": (c_void_p, c_int, c_int),
    "cuDeviceGetAttribute": (c_void_p, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (c_void_p, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuMemGetInfo_v2": (c_void_p, c_void_p),
    "cuMemAddressReserve": (c_void_p, c_size_t, c_size_t, c_uint64, c_uint64),
    "cuMemAddressFree": (c_uint64, c_size_t),
    "cuMemCreate": (c_void_p, c_size_t, c_void_p, c_uint64),
    "cuMemRelease": (c_uint64,),
    "cuMemMap": (c_uint64, c_size_t, c_size_t, c_uint64, c_uint64),
    "cuMemUnmap": (c_uint64, c_size_t),
    "cuMemSetAccess": (c_uint64, c_size_t, c_void_p, c_size_t),
    "cuMemAlloc_v2": (c_void_p, c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuLibraryLoadData": (c_void_p, c_char_p, c_void_p, c_void_p, c_uint, c_void_p, c_void_p, c_uint),
    "cuLibraryUnload": (c_void_p,),
    "cuLibraryGetKernel": (c_void_p, c_void_p, c_char_p),
    "cuLibraryGetGlobal": (c_void_p, c_void_p, c_void_p, c_char_p),
    "cuKernelGetFunction": (c_void_p, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuFuncGetParamInfo": (c_void_p, c_size_t, c_void_p, c_void_p),
    "cuGraphCreate": (c_void_p, c_uint),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphAddKernelNode_v2": (c_void_p, c_void_p, c_void_p, c_size_t, c_void_p),
    "cuGraphAddMemsetNode": (c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p),
    "cuGraphAddMemcpyNode": (c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p),
    "cuGraphAddDependencies_v2": (c_void_p, c_void_p, c_void_p, c_void_p, c_size_t),
    "cuGraphKernelNodeGetAttribute": (c_void_p, c_int, c_void_p),
    "cuGraphKernelNodeSetAttribute": (c_void_p, c_int, c_void_p),
    "cuGraphInstantiateWithFlags": (c_void_p, c_void_p, c_uint64),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphUpload": (c_void_p, c_void_p),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuStreamCreate": (c_void_p, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuGetErrorName": (c_int, c_void_p),
}
"""The arguments of each call. Handles are c_void_p, device addresses c_uint64, what a call fills in c_void_p."""


class Location(Structure):
    """CUmemLocation."""

    _fields_ = (("type", c_int), ("id", c_int))


class AllocationFlags(Structure):
    """CUmemAllocationProp.allocFlags."""

    _fields_ = (("compression", c_ubyte), ("rdma", c_ubyte), ("usage", c_ushort), ("reserved", c_ubyte * 4))


class AllocationProp(Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", c_int),
        ("handles", c_int),
        ("location", Location),
        ("win32", c_void_p),
        ("flags", AllocationFlags),
    )


class AccessDesc(Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", Location), ("flags", c_int))


class KernelParams(Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("func", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("params", c_void_p),
        ("extra", c_void_p),
        ("kern", c_void_p),
        ("ctx", c_void_p),
    )


class MemsetParams(Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = (
        ("dst", c_uint64),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("element_bytes", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    )


class CopySide(Structure):
    """Either half of a CUDA_MEMCPY3D; its reserved word or level of detail included."""

    _fields_ = (
        ("x", c_size_t),
        ("y", c_size_t),
        ("z", c_size_t),
        ("lod", c_size_t),
        ("type", c_int),
        ("host", c_void_p),
        ("device", c_uint64),
        ("array", c_void_p),
        ("reserved", c_void_p),
        ("pitch", c_size_t),
        ("height", c_size_t),
    )


class Copy3D(Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = (
        ("source", CopySide),
        ("destination", CopySide),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
    )


class EdgeData(Structure):
    """CUgraphEdgeData."""

    _fields_ = (("from_port", c_ubyte), ("to_port", c_ubyte), ("type", c_ubyte), ("reserved", c_ubyte * 5))


class LibCuda:
    """The driver's library. Raises DeviceError CAD8002 where there is none, CAD8005 where it lacks a call."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise DeviceError(
                "CAD8002",
                "no CUDA driver on this machine",
                expected="libcuda.so.1",
                got=str(error).lower(),
                hint="install the NVIDIA driver, or load a plan for the cpu target",
            ) from None
        self._functions = {name: self._function(name, types) for name, types in CALLS.items()}

    def call(self, name: str, *arguments: object) -> None:
        """Make a call. Raises DeviceError CAD8001 when the driver refuses."""
        code = self._functions[name](*arguments)
        if code:
            raise self._refused(name, code)

    def try_call(self, name: str, *arguments: object) -> bool:
        """Make a call that may be refused; return whether it was not."""
        return not self._functions[name](*arguments)

    def made(self, name: str, *arguments: object) -> int:
        """Make a call that fills in a handle or an address as its first argument, and return that."""
        value = c_uint64()
        self.call(name, ctypes.addressof(value), *arguments)
        return value.value

    def number(self, name: str, *arguments: object) -> int:
        """Make a call that fills in an int as its first argument, and return that."""
        value = c_int()
        self.call(name, ctypes.addressof(value), *arguments)
        return value.value

    def _function(self, name: str, types: tuple[object, ...]) -> "ctypes._NamedFuncPointer":
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise DeviceError(
                "CAD8005",
                f"the CUDA driver does not know `{name}`",
                expected="a driver for CUDA 12.4 or newer",
                got="an older one",
                hint="update the NVIDIA driver",
            ) from None
        function.argtypes = types
        function.restype = c_int
        return function  # type: ignore[no-any-return]

    def _refused(self, name: str, code: int) -> DeviceError:
        text = c_char_p()
        known = self.try_call("cuGetErrorName", code, ctypes.addressof(text))
        result = text.value.decode() if known and text.value else f"CUresult {code}"
        return driver_error(name.partition("_v")[0], result, HINTS.get(result))


def handles(values: list[int]) -> "ctypes.Array[c_void_p]":
    """Return handles as an array for the driver."""
    return (c_void_p * len(values))(*values)
