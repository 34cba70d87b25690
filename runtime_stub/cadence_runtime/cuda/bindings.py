"""`Driver` on cuda-bindings: each method one or two driver calls, each call checked."""

import ctypes
from typing import Any

from cuda.bindings import driver as cu

from cadence_runtime.cuda.driver import DeviceInfo, Handle, driver_error
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import KernelNode, MemcpyNode, MemsetNode

SUCCESS = cu.CUresult.CUDA_SUCCESS
DEVICE = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
GRANULARITY_BYTES = 2 << 20
ATTRIBUTE_BYTES = 64
RANGE_BYTES = 1 << 30
"""Addresses are reserved in ranges of this size: the driver does not honour a wish for a small one."""

HINTS = {
    "CUDA_ERROR_OUT_OF_MEMORY": "free device memory, or load a plan with fewer resident keys",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "the device's context is lost: close every session of this process and load again",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the plan was compiled for another GPU: `cadencec check` says for which",
}


def call(name: str, *arguments: Any) -> Any:
    """Make one driver call by name; return its results (one bare, several as a tuple, none as None)."""
    result, *values = getattr(cu, name)(*arguments)
    if result != SUCCESS:
        raise driver_error(name, result.name, HINTS.get(result.name))
    return values[0] if len(values) == 1 else tuple(values) if values else None


class CudaDriver:
    """See `Driver`. One device, its primary context."""

    def __init__(self) -> None:
        self._device: Any = None
        self._context: Any = None
        self._node = cu.CUDA_KERNEL_NODE_PARAMS()
        self._attributes: dict[tuple[int, bytes], Any] = {}
        self._fresh: dict[tuple[int, int], bytes | None] = {}
        self._mappings: dict[int, Any] = {}

    def open(self, device: int) -> DeviceInfo:
        call("cuInit", 0)
        self._device = call("cuDeviceGet", device)
        self._context = call("cuDevicePrimaryCtxRetain", self._device)
        self.use()
        attribute = cu.CUdevice_attribute
        major = call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self._device)
        minor = call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self._device)
        name = call("cuDeviceGetName", 256, self._device).split(b"\0", 1)[0].decode()
        free, total = self.memory()
        units = call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, self._device)
        each = call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, self._device)
        threads = int(units) * int(each)
        return DeviceInfo(name, (int(major), int(minor)), int(call("cuDriverGetVersion")), free, total, threads)

    def close(self) -> None:
        if self._context is not None:
            call("cuDevicePrimaryCtxRelease", self._device)
            self._context = None

    def use(self) -> None:
        call("cuCtxSetCurrent", self._context)

    def reserve(self, size: int, address: int) -> int:
        mapped, reserved = _rounded(size, GRANULARITY_BYTES), _rounded(size, RANGE_BYTES)
        properties = cu.CUmemAllocationProp()
        properties.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = int(self._device)
        base = int(call("cuMemAddressReserve", reserved, 0, address, 0))
        try:
            memory = call("cuMemCreate", mapped, properties, 0)
        except DeviceError:
            call("cuMemAddressFree", base, reserved)
            raise
        call("cuMemMap", base, mapped, 0, memory, 0)
        access = cu.CUmemAccessDesc()
        access.location = properties.location
        access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        call("cuMemSetAccess", base, mapped, [access], 1)
        self._mappings[base] = memory
        return base

    def release(self, address: int, size: int) -> None:
        call("cuMemUnmap", address, _rounded(size, GRANULARITY_BYTES))
        call("cuMemRelease", self._mappings.pop(address))
        call("cuMemAddressFree", address, _rounded(size, RANGE_BYTES))

    def allocate(self, size: int) -> int:
        return int(call("cuMemAlloc", max(size, 1)))

    def free(self, address: int) -> None:
        call("cuMemFree", address)

    def upload(self, address: int, source: int, size: int, stream: Handle) -> None:
        if size:
            call("cuMemcpyHtoDAsync", address, source, size, stream)

    def download(self, destination: int, address: int, size: int, stream: Handle) -> None:
        if size:
            call("cuMemcpyDtoHAsync", destination, address, size, stream)
        self.synchronize(stream)

    def copy(self, destination: int, source: int, size: int, stream: Handle) -> None:
        if size:
            call("cuMemcpyDtoDAsync", destination, source, size, stream)

    def fill(self, address: int, value: int, size: int, stream: Handle) -> None:
        if size:
            call("cuMemsetD8Async", address, value, size, stream)

    def load_library(self, image: bytes) -> Handle:
        return call("cuLibraryLoadData", image, [], [], 0, [], [], 0)

    def unload_library(self, library: Handle) -> None:
        call("cuLibraryUnload", library)

    def function(self, library: Handle, name: str) -> Handle:
        return call("cuKernelGetFunction", call("cuLibraryGetKernel", library, name.encode()))

    def set_attribute(self, function: Handle, attribute: int, value: int) -> None:
        call("cuFuncSetAttribute", function, cu.CUfunction_attribute(attribute), value)

    def param_info(self, function: Handle) -> tuple[tuple[int, int], ...]:
        found: list[tuple[int, int]] = []
        while True:
            result, *values = cu.cuFuncGetParamInfo(function, len(found))
            if result != SUCCESS:  # the driver has no call for the number of parameters: it refuses the first too many
                return tuple(found)
            found.append((int(values[0]), int(values[1])))

    def global_address(self, library: Handle, name: str) -> tuple[int, int]:
        address, size = call("cuLibraryGetGlobal", library, name.encode())
        return int(address), int(size)

    def new_graph(self) -> Handle:
        return call("cuGraphCreate", 0)

    def add_kernel(self, graph: Handle, after: list[Handle], node: KernelNode, function: Handle, params: int) -> Handle:
        record = self._node  # one record for all: the driver copies it, and making one costs more than the call
        record.func = function
        record.gridDimX, record.gridDimY, record.gridDimZ = node.grid
        record.blockDimX, record.blockDimY, record.blockDimZ = node.block
        record.sharedMemBytes = node.shared_bytes
        record.kernelParams = params
        added = call("cuGraphAddKernelNode", graph, after, len(after), record)
        for attribute, raw in node.attributes:
            if self._fresh_attribute(added, function, attribute) != raw:
                call("cuGraphKernelNodeSetAttribute", added, *self._attribute(attribute, raw))
        return added

    def _fresh_attribute(self, node: Handle, function: Handle, attribute: int) -> bytes | None:
        """Return what a launch attribute is on a node of the function that was just added: most need not be set. None
        where the driver does not tell."""
        key = (int(function), attribute)
        if key not in self._fresh:
            result, *values = cu.cuGraphKernelNodeGetAttribute(node, cu.CUlaunchAttributeID(attribute))
            raw = ctypes.string_at(values[0].getPtr(), ATTRIBUTE_BYTES) if result == SUCCESS else None
            self._fresh[key] = raw
        return self._fresh[key]

    def _attribute(self, attribute: int, raw: bytes) -> Any:
        """Return an attribute's name and value as the driver takes them, made once."""
        key = (attribute, raw)
        if key not in self._attributes:
            value = cu.CUkernelNodeAttrValue()
            ctypes.memmove(value.getPtr(), raw, len(raw))
            self._attributes[key] = (cu.CUlaunchAttributeID(attribute), value)
        return self._attributes[key]

    def add_memset(self, graph: Handle, after: list[Handle], node: MemsetNode, address: int) -> Handle:
        record = cu.CUDA_MEMSET_NODE_PARAMS()
        record.dst, record.pitch, record.value = address, node.pitch, node.value
        record.elementSize, record.width, record.height = node.element_bytes, node.width, node.height
        return call("cuGraphAddMemsetNode", graph, after, len(after), record, self._context)

    def add_memcpy(self, graph: Handle, after: list[Handle], node: MemcpyNode, destination: int, source: int) -> Handle:
        record = cu.CUDA_MEMCPY3D()
        record.srcMemoryType = record.dstMemoryType = DEVICE
        record.srcDevice, record.dstDevice = source, destination
        record.srcPitch, record.srcHeight = node.source_pitch, node.source_height
        record.dstPitch, record.dstHeight = node.destination_pitch, node.destination_height
        record.WidthInBytes, record.Height, record.Depth = node.width, node.height, node.depth
        return call("cuGraphAddMemcpyNode", graph, after, len(after), record, self._context)

    def add_edge(self, graph: Handle, before: Handle, after: Handle, data: tuple[int, int, int]) -> None:
        edge = cu.CUgraphEdgeData()
        edge.from_port, edge.to_port, edge.type = data
        call("cuGraphAddDependencies", graph, [before], [after], [edge], 1)

    def destroy_graph(self, graph: Handle) -> None:
        call("cuGraphDestroy", graph)

    def instantiate(self, graph: Handle) -> Handle:
        try:
            return call("cuGraphInstantiate", graph, 0)
        finally:
            call("cuGraphDestroy", graph)

    def destroy(self, executable: Handle) -> None:
        call("cuGraphExecDestroy", executable)

    def new_stream(self) -> Handle:
        return call("cuStreamCreate", cu.CUstream_flags.CU_STREAM_NON_BLOCKING)

    def destroy_stream(self, stream: Handle) -> None:
        call("cuStreamDestroy", stream)

    def prepare(self, executable: Handle, stream: Handle) -> None:
        call("cuGraphUpload", executable, stream)

    def launch(self, executable: Handle, stream: Handle) -> None:
        call("cuGraphLaunch", executable, stream)

    def synchronize(self, stream: Handle) -> None:
        call("cuStreamSynchronize", stream)

    def memory(self) -> tuple[int, int]:
        free, total = call("cuMemGetInfo")
        return int(free), int(total)


def _rounded(size: int, step: int) -> int:
    return -(-size // step) * step
