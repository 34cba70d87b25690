"""`Driver` on libcuda: each method one or a few driver calls, each call checked. Handles are ints."""

import ctypes
from ctypes import addressof, c_size_t, c_uint64, c_void_p

from cadence_runtime.cuda.driver import DeviceInfo, Handle
from cadence_runtime.cuda.libcuda import (
    AccessDesc,
    AllocationProp,
    Copy3D,
    EdgeData,
    KernelParams,
    LibCuda,
    Location,
    MemsetParams,
    handles,
)
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import KernelNode, MemcpyNode, MemsetNode

GRANULARITY_BYTES = 2 << 20
RANGE_BYTES = 1 << 30
"""Addresses are reserved in ranges of this size: the driver does not honour a wish for a small one."""
ATTRIBUTE_BYTES = 64

PINNED, ON_DEVICE, READ_WRITE = 1, 1, 3
"""CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE."""
DEVICE_MEMORY = 2
"""CU_MEMORYTYPE_DEVICE."""
NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING."""
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*."""


class CudaDriver:
    """See `Driver`. One device, its primary context."""

    def __init__(self) -> None:
        self._cuda: LibCuda | None = None
        self._device = 0
        self._context: int | None = None
        self._node = KernelParams()
        self._added = c_void_p()
        self._added_at = addressof(self._added)
        self._fresh: dict[tuple[int, int], bytes] = {}
        self._mappings: dict[int, int] = {}

    @property
    def cuda(self) -> LibCuda:
        """The driver's library, opened when it is first needed."""
        if self._cuda is None:
            self._cuda = LibCuda()
        return self._cuda

    def open(self, device: int) -> DeviceInfo:
        cuda = self.cuda
        cuda.call("cuInit", 0)
        self._device = cuda.number("cuDeviceGet", device)
        self._context = cuda.made("cuDevicePrimaryCtxRetain", self._device)
        self.use()
        major, minor = (
            cuda.number("cuDeviceGetAttribute", attribute, self._device)
            for attribute in (CAPABILITY_MAJOR, CAPABILITY_MINOR)
        )
        name = ctypes.create_string_buffer(256)
        cuda.call("cuDeviceGetName", addressof(name), len(name), self._device)
        return DeviceInfo(name.value.decode(), (major, minor), cuda.number("cuDriverGetVersion"), *self.memory())

    def close(self) -> None:
        if self._context is not None:
            self.cuda.call("cuDevicePrimaryCtxRelease_v2", self._device)
            self._context = None

    def use(self) -> None:
        self.cuda.call("cuCtxSetCurrent", self._context)

    def reserve(self, size: int, address: int) -> int:
        mapped, reserved = _rounded(size, GRANULARITY_BYTES), _rounded(size, RANGE_BYTES)
        here = Location(ON_DEVICE, self._device)
        properties, access = AllocationProp(PINNED, 0, here), AccessDesc(here, READ_WRITE)
        base = self.cuda.made("cuMemAddressReserve", reserved, 0, address, 0)
        try:
            memory = self.cuda.made("cuMemCreate", mapped, addressof(properties), 0)
        except DeviceError:
            self.cuda.call("cuMemAddressFree", base, reserved)
            raise
        self.cuda.call("cuMemMap", base, mapped, 0, memory, 0)
        self.cuda.call("cuMemSetAccess", base, mapped, addressof(access), 1)
        self._mappings[base] = memory
        return base

    def release(self, address: int, size: int) -> None:
        self.cuda.call("cuMemUnmap", address, _rounded(size, GRANULARITY_BYTES))
        self.cuda.call("cuMemRelease", self._mappings.pop(address))
        self.cuda.call("cuMemAddressFree", address, _rounded(size, RANGE_BYTES))

    def allocate(self, size: int) -> int:
        return self.cuda.made("cuMemAlloc_v2", max(size, 1))

    def free(self, address: int) -> None:
        self.cuda.call("cuMemFree_v2", address)

    def upload(self, address: int, source: int, size: int, stream: Handle) -> None:
        if size:
            self.cuda.call("cuMemcpyHtoDAsync_v2", address, source, size, stream)

    def download(self, destination: int, address: int, size: int, stream: Handle) -> None:
        if size:
            self.cuda.call("cuMemcpyDtoHAsync_v2", destination, address, size, stream)
        self.synchronize(stream)

    def copy(self, destination: int, source: int, size: int, stream: Handle) -> None:
        if size:
            self.cuda.call("cuMemcpyDtoDAsync_v2", destination, source, size, stream)

    def fill(self, address: int, value: int, size: int, stream: Handle) -> None:
        if size:
            self.cuda.call("cuMemsetD8Async", address, value, size, stream)

    def load_library(self, image: bytes) -> Handle:
        return self.cuda.made("cuLibraryLoadData", image, None, None, 0, None, None, 0)

    def unload_library(self, library: Handle) -> None:
        self.cuda.call("cuLibraryUnload", library)

    def function(self, library: Handle, name: str) -> Handle:
        return self.cuda.made("cuKernelGetFunction", self.cuda.made("cuLibraryGetKernel", library, name.encode()))

    def set_attribute(self, function: Handle, attribute: int, value: int) -> None:
        self.cuda.call("cuFuncSetAttribute", function, attribute, value)

    def param_info(self, function: Handle) -> tuple[tuple[int, int], ...]:
        found: list[tuple[int, int]] = []
        offset, size = c_size_t(), c_size_t()
        # The driver has no call for the number of parameters: it refuses the first too many.
        while self.cuda.try_call("cuFuncGetParamInfo", function, len(found), addressof(offset), addressof(size)):
            found.append((offset.value, size.value))
        return tuple(found)

    def global_address(self, library: Handle, name: str) -> tuple[int, int]:
        size = c_size_t()
        address = self.cuda.made("cuLibraryGetGlobal", addressof(size), library, name.encode())
        return address, size.value

    def new_graph(self) -> Handle:
        return self.cuda.made("cuGraphCreate", 0)

    def add_kernel(self, graph: Handle, after: list[Handle], node: KernelNode, function: Handle, params: int) -> Handle:
        record = self._node  # one record for all: the driver copies it
        record.func, record.params, record.shared_bytes = function, params, node.shared_bytes
        record.grid[:], record.block[:] = node.grid, node.block
        added = self._add("cuGraphAddKernelNode_v2", graph, after, addressof(record))
        for attribute, raw in node.attributes:
            if self._fresh_attribute(added, function, attribute) != raw:
                self.cuda.call("cuGraphKernelNodeSetAttribute", added, attribute, raw)
        return added

    def add_memset(self, graph: Handle, after: list[Handle], node: MemsetNode, address: int) -> Handle:
        record = MemsetParams(address, node.pitch, node.value, node.element_bytes, node.width, node.height)
        return self._add("cuGraphAddMemsetNode", graph, after, addressof(record), self._context)

    def add_memcpy(self, graph: Handle, after: list[Handle], node: MemcpyNode, destination: int, source: int) -> Handle:
        record = copy_record(node, destination, source)
        return self._add("cuGraphAddMemcpyNode", graph, after, addressof(record), self._context)

    def add_edge(self, graph: Handle, before: Handle, after: Handle, data: tuple[int, int, int]) -> None:
        edge = EdgeData(*data)
        self.cuda.call("cuGraphAddDependencies_v2", graph, handles([before]), handles([after]), addressof(edge), 1)

    def destroy_graph(self, graph: Handle) -> None:
        self.cuda.call("cuGraphDestroy", graph)

    def instantiate(self, graph: Handle) -> Handle:
        try:
            return self.cuda.made("cuGraphInstantiateWithFlags", graph, 0)
        finally:
            self.destroy_graph(graph)

    def destroy(self, executable: Handle) -> None:
        self.cuda.call("cuGraphExecDestroy", executable)

    def new_stream(self) -> Handle:
        return self.cuda.made("cuStreamCreate", NON_BLOCKING)

    def destroy_stream(self, stream: Handle) -> None:
        self.cuda.call("cuStreamDestroy_v2", stream)

    def prepare(self, executable: Handle, stream: Handle) -> None:
        self.cuda.call("cuGraphUpload", executable, stream)

    def launch(self, executable: Handle, stream: Handle) -> None:
        self.cuda.call("cuGraphLaunch", executable, stream)

    def synchronize(self, stream: Handle) -> None:
        self.cuda.call("cuStreamSynchronize", stream)

    def memory(self) -> tuple[int, int]:
        free, total = c_size_t(), c_size_t()
        self.cuda.call("cuMemGetInfo_v2", addressof(free), addressof(total))
        return free.value, total.value

    def _add(self, call: str, graph: Handle, after: list[Handle], *rest: object) -> int:
        self.cuda.call(call, self._added_at, graph, handles(after) if after else None, len(after), *rest)
        return int(self._added.value or 0)

    def _fresh_attribute(self, node: Handle, function: Handle, attribute: int) -> bytes:
        """Return a launch attribute of a node that was just added, by its kernel: most need not be set."""
        key = (function, attribute)
        if key not in self._fresh:
            value = (c_uint64 * (ATTRIBUTE_BYTES // 8))()
            self.cuda.call("cuGraphKernelNodeGetAttribute", node, attribute, addressof(value))
            self._fresh[key] = bytes(value)
        return self._fresh[key]


def copy_record(node: MemcpyNode, destination: int, source: int) -> Copy3D:
    """Return a copy within the device as the driver takes it."""
    record = Copy3D(width=node.width, height=node.height, depth=node.depth)
    sides = (
        (record.source, source, node.source_pitch, node.source_height),
        (record.destination, destination, node.destination_pitch, node.destination_height),
    )
    for side, address, pitch, height in sides:
        side.type, side.device, side.pitch, side.height = DEVICE_MEMORY, address, pitch, height
    return record


def _rounded(size: int, granularity: int) -> int:
    return -(-max(size, 1) // granularity) * granularity
