"""Reading a captured graph back from the driver, node by node, as plain data with absolute addresses."""

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from cuda.bindings import driver as cu

from cadence_runtime.cuda.bindings import SUCCESS, call
from cadence_runtime.errors import TargetError
from cadence_runtime.format.cuda import Edge

NODE = cu.CUgraphNodeType
ATTRIBUTE_BYTES = 64

LAUNCH_ATTRIBUTES = tuple(
    getattr(cu.CUlaunchAttributeID, name)
    for name in (
        "CU_LAUNCH_ATTRIBUTE_COOPERATIVE",
        "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION",
        "CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE",
        "CU_LAUNCH_ATTRIBUTE_PRIORITY",
        "CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION",
        "CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN",
        "CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP",
    )
    if hasattr(cu.CUlaunchAttributeID, name)
)
"""The launch attributes of a kernel node that change what a launch does; the others describe how it came about."""

FUNCTION_ATTRIBUTES = (
    cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
)


@dataclass(frozen=True, slots=True)
class RawKernel:
    """A launch as captured. `function` is the driver's handle (for attributes and module variables)."""

    name: str
    function: Any
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    param_offsets: tuple[int, ...]
    param_sizes: tuple[int, ...]
    params: bytes
    attributes: tuple[tuple[int, bytes], ...]
    function_attributes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RawMemset:
    """A fill as captured."""

    address: int
    pitch: int
    value: int
    element_bytes: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class RawMemcpy:
    """A device-to-device copy as captured; offsets within the boxes are folded into the addresses."""

    destination: int
    source: int
    width: int
    height: int
    depth: int
    destination_pitch: int
    destination_height: int
    source_pitch: int
    source_height: int


RawNode = RawKernel | RawMemset | RawMemcpy


@dataclass(frozen=True, slots=True)
class RawGraph:
    """Nodes in a topological order, and edges between their indices. `positions[i]` is the place of node i in the
    driver's own order, which is that of capture."""

    nodes: tuple[RawNode, ...]
    edges: tuple[Edge, ...]
    positions: tuple[int, ...]


def read_graph(handle: int, describe: Callable[[int], str]) -> RawGraph:
    """Read a CUgraph. `describe(position)` names the op that a node of the driver's order came from, for errors."""
    graph = cu.CUgraph(handle)
    _, count = call("cuGraphGetNodes", graph, 0)
    handles, _ = call("cuGraphGetNodes", graph, count)
    position = {int(node): index for index, node in enumerate(handles)}
    edges = _edges(graph, position)
    order = _topological(len(handles), edges)
    place = {old: new for new, old in enumerate(order)}
    functions = _Functions()
    nodes = tuple(_read_node(handles[old], functions, describe(old)) for old in order)
    moved = (edge._replace(before=place[edge.before], after=place[edge.after]) for edge in edges)
    return RawGraph(nodes, tuple(sorted(moved)), tuple(order))


def set_params(handle: int, params: Mapping[int, bytes]) -> None:
    """Give launches of a CUgraph other parameters, by position in the driver's order."""
    graph = cu.CUgraph(handle)
    _, count = call("cuGraphGetNodes", graph, 0)
    handles, _ = call("cuGraphGetNodes", graph, count)
    for position, raw in params.items():
        record = call("cuGraphKernelNodeGetParams", handles[position])
        offsets, _ = _param_info(_function_of(record))
        held = ctypes.create_string_buffer(raw, len(raw))
        table = (ctypes.c_void_p * len(offsets))(*(ctypes.addressof(held) + offset for offset in offsets))
        record.kernelParams, record.extra = ctypes.addressof(table), 0
        call("cuGraphKernelNodeSetParams", handles[position], record)


def _edges(graph: Any, position: dict[int, int]) -> list[Edge]:
    *_, count = call("cuGraphGetEdges", graph, 0)
    if not count:
        return []
    before, after, data, _ = call("cuGraphGetEdges", graph, count)
    return [
        Edge(position[int(one)], position[int(other)], entry.from_port, entry.to_port, int(entry.type))
        for one, other, entry in zip(before, after, data, strict=True)
    ]


def _topological(count: int, edges: list[Edge]) -> list[int]:
    """Return the positions in an order that respects the edges, the smallest position first among those that may."""
    waits, follows = [0] * count, [[] for _ in range(count)]  # type: tuple[list[int], list[list[int]]]
    for edge in edges:
        waits[edge.after] += 1
        follows[edge.before].append(edge.after)
    ready, order = [index for index in range(count) if not waits[index]], []  # sorted, so it is a heap
    while ready:
        index = heappop(ready)
        order.append(index)
        for other in follows[index]:
            waits[other] -= 1
            if not waits[other]:
                heappush(ready, other)
    return order


def _read_node(node: Any, functions: "_Functions", op: str) -> RawNode:
    kind = call("cuGraphNodeGetType", node)
    if kind == NODE.CU_GRAPH_NODE_TYPE_KERNEL:
        return _read_kernel(node, functions)
    if kind == NODE.CU_GRAPH_NODE_TYPE_MEMSET:
        record = call("cuGraphMemsetNodeGetParams", node)
        return RawMemset(int(record.dst), record.pitch, record.value, record.elementSize, record.width, record.height)
    if kind == NODE.CU_GRAPH_NODE_TYPE_MEMCPY:
        return _read_memcpy(node, op)
    raise TargetError(
        "CAD4110",
        f"a graph node of kind {kind.name.removeprefix('CU_GRAPH_NODE_TYPE_').lower()} cannot be stored in a plan",
        expected="kernel, memset or memcpy nodes",
        got=kind.name,
        at=op,
        hint="keep host callbacks, allocations and events out of the stage",
    )


def _read_memcpy(node: Any, op: str) -> RawMemcpy:
    record = call("cuGraphMemcpyNodeGetParams", node)
    kinds = {record.srcMemoryType, record.dstMemoryType}
    unified = {cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, cu.CUmemorytype.CU_MEMORYTYPE_UNIFIED}
    if not kinds <= unified:
        names = ", ".join(sorted(kind.name.removeprefix("CU_MEMORYTYPE_").lower() for kind in kinds))
        raise TargetError(
            "CAD4111",
            "a copy between host and device is part of the stage",
            expected="copies within the device",
            got=f"memory of kind {names}",
            at=op,
            hint="create the tensor on the device, or pass it as an input",
        )

    return RawMemcpy(
        int(record.dstDevice) + record.dstXInBytes + record.dstPitch * (record.dstY + record.dstHeight * record.dstZ),
        int(record.srcDevice) + record.srcXInBytes + record.srcPitch * (record.srcY + record.srcHeight * record.srcZ),
        record.WidthInBytes,
        record.Height,
        record.Depth,
        record.dstPitch,
        record.dstHeight,
        record.srcPitch,
        record.srcHeight,
    )


def _read_kernel(node: Any, functions: "_Functions") -> RawKernel:
    record = call("cuGraphKernelNodeGetParams", node)
    of = functions(_function_of(record))
    return RawKernel(
        of.name,
        of.handle,
        (record.gridDimX, record.gridDimY, record.gridDimZ),
        (record.blockDimX, record.blockDimY, record.blockDimZ),
        record.sharedMemBytes,
        of.param_offsets,
        of.param_sizes,
        _param_bytes(record, of.param_offsets, of.param_sizes),
        _launch_attributes(node),
        of.attributes,
    )


@dataclass(frozen=True, slots=True)
class _Function:
    """What the driver says of a function, whichever node launches it."""

    handle: Any
    name: str
    param_offsets: tuple[int, ...]
    param_sizes: tuple[int, ...]
    attributes: tuple[tuple[int, int], ...]


class _Functions:
    """The functions of one graph, each asked about once. No longer: a handle may come to stand for another function,
    and a library may set its attributes anew."""

    def __init__(self) -> None:
        self._known: dict[int, _Function] = {}

    def __call__(self, handle: Any) -> _Function:
        """Return a function by the driver's handle."""
        found = self._known.get(int(handle))
        if found is None:
            values = ((key, call("cuFuncGetAttribute", key, handle)) for key in FUNCTION_ATTRIBUTES)
            attributes = tuple((int(key), int(value)) for key, value in values)
            name = call("cuFuncGetName", handle).decode()
            found = self._known[int(handle)] = _Function(handle, name, *_param_info(handle), attributes)
        return found


def _function_of(record: Any) -> Any:
    """Return the handle of the function that a node launches. A member of a record is a window on the record's memory:
    a handle that outlives it has to be copied."""
    function = cu.CUfunction(int(record.func))
    return function if int(function) else call("cuKernelGetFunction", record.kern)


def _param_info(function: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    offsets: list[int] = []
    sizes: list[int] = []
    while True:
        result, *values = cu.cuFuncGetParamInfo(function, len(offsets))
        if result != SUCCESS:  # the driver has no call for the number of parameters: it refuses the first too many
            return tuple(offsets), tuple(sizes)
        offsets.append(int(values[0]))
        sizes.append(int(values[1]))


def _param_bytes(record: Any, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> bytes:
    """Return the parameters laid out by the driver's offsets, from the pointer array or from the `extra` list."""
    params = bytearray(max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0))
    table = int(record.kernelParams) if record.kernelParams else 0
    if table:
        for index, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
            address = ctypes.c_void_p.from_address(table + 8 * index).value
            params[offset : offset + size] = ctypes.string_at(address, size)  # type: ignore[arg-type]
    elif params:
        packed = _extra_buffer(int(record.extra))
        for offset, size in zip(offsets, sizes, strict=True):
            params[offset : offset + size] = ctypes.string_at(packed + offset, size)
    return bytes(params)


def _extra_buffer(entries: int) -> int:
    """Return the buffer pointer of an `extra` list: tags and values in any order, ended by tag 0."""
    while True:
        tag = ctypes.c_void_p.from_address(entries).value or 0
        if tag == 0:
            raise TargetError(
                "CAD4112", "a launch has parameters but no buffer that holds them", expected="tag 1", got="tag 0"
            )
        if tag == 1:
            return int(ctypes.c_void_p.from_address(entries + 8).value or 0)
        entries += 16


def _launch_attributes(node: Any) -> tuple[tuple[int, bytes], ...]:
    found = []
    for attribute in LAUNCH_ATTRIBUTES:
        result, *values = cu.cuGraphKernelNodeGetAttribute(node, attribute)
        if result != SUCCESS:
            continue  # an attribute that this driver does not know for kernel nodes
        raw = ctypes.string_at(values[0].getPtr(), ATTRIBUTE_BYTES)
        if raw.strip(b"\0"):
            found.append((int(attribute), raw))
    return tuple(sorted(found))
