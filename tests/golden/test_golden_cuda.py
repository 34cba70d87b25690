"""The golden CUDA plan, made on an H200, without a device: relocated and rebuilt through a driver in memory."""

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cadence_runtime.check import open_plan
from cadence_runtime.cuda.player import CudaPlayer
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import CudaPart, Graph, KernelNode, MemcpyNode
from cadence_runtime.format.plan import Plan
from cadence_runtime.session import LoadedPlan
from cadencec.inspect import inspect, render
from tests.cuda.fake_driver import FakeDriver

PATH = Path(__file__).parents[2] / "plans" / "growing-kv-cat.cuda-sm90.format-1.0.2026-12-01.plan"
ELSEWHERE = 0x5000_0000_0000


@pytest.fixture(scope="module")
def plan() -> Plan:
    return open_plan(PATH)


def part_of(plan: Plan) -> CudaPart:
    assert plan.cuda is not None
    return plan.cuda


def fake(plan: Plan, **options: Any) -> FakeDriver:
    kernels = part_of(plan).kernels
    layouts = {k.name: tuple(zip(k.param_offsets, k.param_sizes, strict=True)) for k in kernels}
    return FakeDriver(layouts=layouts, **options)


def loaded(plan: Plan, driver: FakeDriver, **options: Any) -> LoadedPlan:
    driver.open(0)
    return LoadedPlan(plan, CudaPlayer(plan, driver, lambda name: (), **options))


def runs(driver: FakeDriver, since: int = 0) -> list[tuple[str, int]]:
    """Return the names of the calls in order, equal neighbours as one with their count."""
    return [(name, len(list(group))) for name, group in groupby(call[0] for call in driver.calls[since:])]


def test_what_is_in_it(plan: Plan) -> None:
    part = part_of(plan)
    assert (part.compute_capability, part.driver, hex(part.base)) == ((9, 0), 13000, "0x6f0000000000")
    assert sorted(image.library for image in part.images) == ["PyTorch"] * 3 + ["cuBLAS"] * 3
    assert (len(part.kernels), sum(len(graph.nodes) for graph in part.graphs)) == (10, 66)
    assert PATH.stat().st_size < 2_000_000
    text = render(inspect(PATH))
    assert "66 graph nodes, 203 relocations" in text
    assert "predicted device memory" in text


def test_the_calls_of_a_load(plan: Plan) -> None:
    driver = fake(plan)
    loaded(plan, driver)
    names = [name for name, _ in runs(driver)]
    assert names[:3] == ["open", "reserve", "new_stream"]
    counts = {name: sum(call[0] == name for call in driver.calls) for name in names}
    assert (counts["load_library"], counts["function"], counts["param_info"]) == (6, 10, 10)
    assert counts["upload"] == len(plan.weights) + len(plan.constants) + sum(
        snapshot.blob is not None for snapshot in part_of(plan).snapshots
    )
    assert "instantiate" not in names  # graphs are built when they first run


def test_the_calls_of_a_push(plan: Plan) -> None:
    driver = fake(plan)
    with loaded(plan, driver) as one, one.session() as session:
        session.push("frame", x=np.ones((1, 1, 16), np.float32))
        since = len(driver.calls)
        (record,) = session.push("frame", x=np.ones((1, 1, 16), np.float32))
        assert runs(driver, since) == [
            ("upload", 1),
            ("new_graph", 1),
            ("add_kernel", 8),
            ("add_memcpy", 3),
            ("instantiate", 1),
            ("prepare", 1),
            ("launch", 1),
            ("download", 1),
        ]
        assert record.outputs["y"].shape == (1, 1, 16)
    assert driver.live == []


def expected_params(plan: Plan, graph: Graph, base: int) -> list[tuple[bytes, ...]]:
    """Return the parameters of each launch, worked out byte by byte."""
    kernels, found = part_of(plan).kernels, []
    for number, node in enumerate(graph.nodes):
        if not isinstance(node, KernelNode):
            continue
        data = bytearray(node.params)
        for entry in graph.relocations:
            if entry.node == number:
                data[entry.word : entry.word + 8] = (base + entry.offset).to_bytes(8, "little")
        kernel = kernels[node.kernel]
        spans = zip(kernel.param_offsets, kernel.param_sizes, strict=True)
        found.append(tuple(bytes(data[offset : offset + size]) for offset, size in spans))
    return found


def expected_moves(graph: Graph, base: int) -> list[tuple[int, int]]:
    """Return destination and source of each copy."""
    words = {(entry.node, entry.word): base + entry.offset for entry in graph.relocations}
    copies = [number for number, node in enumerate(graph.nodes) if isinstance(node, MemcpyNode)]
    return [(words[number, 0], words[number, 8]) for number in copies]


@pytest.mark.parametrize("address", [None, ELSEWHERE])
def test_every_pointer_is_relocated(plan: Plan, address: int | None) -> None:
    driver = fake(plan)
    with loaded(plan, driver, address=address, warm=True):
        base = part_of(plan).base if address is None else address
        expected = [row for graph in part_of(plan).graphs for row in expected_params(plan, graph, base)]
        assert driver.param_bytes == expected
        moves = [call[2:4] for call in driver.calls if call[0] == "add_memcpy"]
        assert moves == [move for graph in part_of(plan).graphs for move in expected_moves(graph, base)]
        assert moves


@pytest.mark.parametrize(
    "call", ["reserve", "new_stream", "upload", "load_library", "function", "param_info", "add_kernel", "instantiate"]
)
def test_a_load_that_fails_anywhere_gives_everything_back(plan: Plan, call: str) -> None:
    driver = fake(plan)
    with loaded(plan, driver, warm=True):
        times = sum(name == call for name, *_ in driver.calls)
    for attempt in sorted({1, times // 2 + 1, times}):
        driver = fake(plan, fail=(call, attempt))
        with pytest.raises(DeviceError, match="CAD8001"):
            loaded(plan, driver, warm=True)
        assert driver.live == []
