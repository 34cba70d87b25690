"""Reading a graph from a driver made by hand: what depends on a function alone is asked once a graph."""

import ctypes
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from cadence_runtime.format.cuda import Edge
from cadencec.targets.cuda import nodes
from cadencec.targets.cuda.nodes import NODE, RawKernel, read_graph, set_params

NAMES = {7: b"add", 9: b"mul"}


class Driver:
    """A graph of launches: `launches` has the function of each node; node handles count from 100, kernels from 50."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *launches: int, edges: tuple[tuple[int, int], ...] = ()
    ) -> None:
        self.launches, self.edges, self.asked = launches, edges, Counter[str]()
        self.words = [ctypes.c_uint64(1000 + number) for number in range(len(launches))]
        self.tables = [(ctypes.c_void_p * 1)(ctypes.addressof(word)) for word in self.words]
        monkeypatch.setattr(nodes, "call", self.answer)
        monkeypatch.setattr(nodes.cu, "cuFuncGetParamInfo", lambda *given: self.answer("cuFuncGetParamInfo", *given))
        unknown = (nodes.cu.CUresult.CUDA_ERROR_INVALID_VALUE,)
        monkeypatch.setattr(nodes.cu, "cuGraphKernelNodeGetAttribute", lambda node, attribute: unknown)

    def answer(self, name: str, *given: Any) -> Any:
        self.asked[name] += 1
        return getattr(self, name)(*given)

    def cuGraphGetNodes(self, graph: Any, room: int) -> Any:  # noqa: N802 - the driver's names
        return [100 + number for number in range(room)], len(self.launches)

    def cuGraphGetEdges(self, graph: Any, room: int) -> Any:  # noqa: N802
        before, after = ([100 + edge[side] for edge in self.edges[:room]] for side in (0, 1))
        data = [SimpleNamespace(from_port=0, to_port=0, type=0)] * room
        return (before, after, data, len(self.edges))

    def cuGraphNodeGetType(self, node: int) -> Any:  # noqa: N802
        return NODE.CU_GRAPH_NODE_TYPE_KERNEL

    def cuGraphKernelNodeGetParams(self, node: int) -> Any:  # noqa: N802
        number = node - 100
        size = {f"{what}Dim{axis}": number + 1 for what in ("grid", "block") for axis in "XYZ"}
        table = ctypes.addressof(self.tables[number])
        function = self.launches[number]  # an odd one is known by its function, an even one by its kernel alone
        return SimpleNamespace(func=function % 2 * function, kern=50 + function, kernelParams=table, extra=0, **size,
                               sharedMemBytes=0)  # fmt: skip

    def cuKernelGetFunction(self, kernel: int) -> Any:  # noqa: N802
        return nodes.cu.CUfunction(kernel - 50)

    def cuFuncGetName(self, function: Any) -> bytes:  # noqa: N802
        return NAMES.get(int(function), b"other")

    def cuFuncGetAttribute(self, attribute: Any, function: Any) -> int:  # noqa: N802
        return int(function)

    def cuFuncGetParamInfo(self, function: Any, index: int) -> tuple[Any, ...]:  # noqa: N802
        return (nodes.SUCCESS, 0, 8) if index == 0 else (nodes.cu.CUresult.CUDA_ERROR_INVALID_VALUE, 0, 0)

    def cuGraphKernelNodeSetParams(self, node: int, record: Any) -> None:  # noqa: N802
        table = ctypes.c_void_p.from_address(record.kernelParams).value
        self.words[node - 100].value = ctypes.c_uint64.from_address(table or 0).value


def read(driver: Driver) -> list[RawKernel]:
    return [node for node in read_graph(1, str).nodes if isinstance(node, RawKernel)]


def test_what_depends_on_a_function_is_asked_once_for_all_its_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch, 7, 9, 7, 7, 8, 9, 8)
    found = read(driver)
    assert [kernel.name for kernel in found] == ["add", "mul", "add", "add", "other", "mul", "other"]
    assert [kernel.params for kernel in found] == [(1000 + n).to_bytes(8, "little") for n in range(7)]
    assert [kernel.grid for kernel in found] == [(n + 1,) * 3 for n in range(7)]
    assert [dict(kernel.function_attributes).popitem()[1] for kernel in found] == [7, 9, 7, 7, 8, 9, 8]
    assert (driver.asked["cuFuncGetName"], driver.asked["cuFuncGetAttribute"]) == (3, 9)
    assert driver.asked["cuFuncGetParamInfo"] == 6
    assert driver.asked["cuGraphKernelNodeGetParams"] == 7


def test_another_graph_is_asked_about_its_functions_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch, 7, 7)
    read(driver)
    monkeypatch.setitem(NAMES, 7, b"sub")
    assert [kernel.name for kernel in read(driver)] == ["sub", "sub"]


def test_nodes_come_in_the_first_order_that_respects_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = (Driver(monkeypatch, 7, 7, 7, 7, edges=((3, 0), (0, 2))), read_graph(1, str))[1]
    assert graph.positions == (1, 3, 0, 2)
    assert graph.edges == (Edge(1, 2, 0, 0, 0), Edge(2, 3, 0, 0, 0))


def test_parameters_that_are_set_are_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch, 7, 8)
    set_params(1, {1: (5).to_bytes(8, "little")})
    assert [int.from_bytes(kernel.params, "little") for kernel in read(driver)] == [1000, 5]
