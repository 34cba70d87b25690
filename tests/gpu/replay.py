"""Replays CUDA plans in a process without torch: `python replay.py FOLDER ADDRESS NAME...`.

The arena stands at the recorded address (ADDRESS `recorded`) or elsewhere; every byte of it that the plan does not
fill is poison. Each graph is read back from the driver before it is instantiated and has to equal the plan's. One line
a plan, and exit code 1 where something differs.
"""

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cadence_runtime.check import open_plan
from cadence_runtime.cuda import common
from cadence_runtime.cuda.bindings import CudaDriver
from cadence_runtime.cuda.build import Addresses, Parameters
from cadence_runtime.cuda.driver import Handle
from cadence_runtime.cuda.needs import Needs
from cadence_runtime.cuda.player import CudaPlayer
from cadence_runtime.format.cuda import Graph, KernelNode, MemsetNode
from cadence_runtime.format.plan import Plan
from cadence_runtime.session import LoadedPlan
from cadencec.targets.cuda.nodes import RawKernel, RawMemset, RawNode, read_graph

POISON = 0xC7


class PoisonedCommon(common.Common):
    """A plan whose arena is full of poison before anything is put into it."""

    def _fill_arena(self, weights: common.WeightSource) -> None:
        self.driver.fill(self.base, POISON, self.arena_bytes, self.stream)
        self.driver.synchronize(self.stream)  # contents come on other streams
        super()._fill_arena(weights)


class ReadingDriver(CudaDriver):
    """Keeps what each graph looks like to the driver before it becomes an executable."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[RawNode, ...]] = []

    def instantiate(self, graph: Handle) -> Handle:
        self.read.append(read_graph(int(graph), str).nodes)
        return super().instantiate(graph)


def reads_back(plan: Plan, graph: Graph, addresses: Addresses, nodes: tuple[RawNode, ...]) -> bool:
    """Return whether the driver's nodes are those of the plan, with the arena where a lane has it."""
    assert plan.cuda is not None
    expected = Parameters(graph, plan.cuda.kernels, addresses)
    return len(nodes) == len(graph.nodes) and all(
        same_node(plan, expected, index, node, read)
        for index, (node, read) in enumerate(zip(graph.nodes, nodes, strict=True))
    )


def same_node(plan: Plan, expected: Parameters, index: int, node: Any, read: RawNode) -> bool:
    assert plan.cuda is not None
    if isinstance(node, KernelNode) and isinstance(read, RawKernel):
        kernel = plan.cuda.kernels[node.kernel]
        start = expected.starts[index]
        params = expected.bytes[start : start + len(node.params)].tobytes()
        launch = (kernel.name, node.grid, node.block, node.shared_bytes, params, node.attributes)
        return launch == (read.name, read.grid, read.block, read.shared_bytes, read.params, read.attributes)
    if isinstance(node, MemsetNode) and isinstance(read, RawMemset):
        fill = (expected.word(index, 0), node.value, node.element_bytes, node.width, node.height)
        return fill == (read.address, read.value, read.element_bytes, read.width, read.height)
    copy = (expected.word(index, 0), expected.word(index, 8), node.width, node.height, node.depth)
    return copy == (read.destination, read.source, read.width, read.height, read.depth)  # type: ignore[union-attr]


def same(got: Any, expected: Any) -> bool:
    if not isinstance(expected, np.ndarray):
        return type(got) is type(expected) and got == expected
    return got.dtype == expected.dtype and got.shape == expected.shape and got.tobytes() == expected.tobytes()


def replay(folder: Path, name: str, address: int | None) -> str:
    """Replay a plan on its first lane, on another over the same weights and images, and within the smallest budget of
    executables."""
    plan = open_plan(folder / f"{name}.plan")
    told = pickle.loads((folder / f"{name}.pickle").read_bytes())  # noqa: S301
    assert plan.cuda is not None
    driver = ReadingDriver()
    driver.open(0)
    with LoadedPlan(plan, CudaPlayer(plan, driver, lambda _: (), address)) as first, first.lane() as second:
        verdicts = [talk(first, told), *graphs(first, driver), talk(second, told), *graphs(second, driver)]
        base = first._player._resident.base  # type: ignore[attr-defined]
        if base != (plan.cuda.base if address is None else address):
            return f"the arena is at {base:#x}"
    driver.open(0)
    budget_bytes = Needs(plan, plan.cuda).push_bytes
    with LoadedPlan(plan, CudaPlayer(plan, driver, lambda _: (), address, budget_bytes=budget_bytes)) as tight:
        verdicts.append(talk(tight, told))
    return next((verdict for verdict in verdicts if verdict != "ok"), "ok")


def talk(lane: LoadedPlan, told: Any) -> str:
    """Push what was told, and compare."""
    sessions = {who: lane.session(seed=told["seed"]) for who in told["states"]}
    kept = []
    for event, inputs, who, expected in told["pushes"]:
        got = [value for record in sessions[who].push(event, **inputs) for value in record.outputs.values()]
        kept.append((got, expected))
        if len(got) != len(expected) or not all(map(same, got, expected)):
            return f"push {len(kept)} (`{event}`) differs at once"
    if not all(all(map(same, got, expected)) for got, expected in kept):
        return "an output differs late"
    for who, session in sessions.items():
        state = session.state()
        for path, value in told["states"][who].items():
            if not same(state[path], value):
                return f"state leaf `{path}` of session {who} differs"
    values = np.unique(np.concatenate([np.ravel(row) for _, rows in kept for row in rows if np.ndim(row)]))
    return "ok" if len(values) > 1 else "outputs are constant"


def graphs(lane: LoadedPlan, driver: ReadingDriver) -> Iterator[str]:
    """Yield what is wrong with the graphs that a lane has built, which are what the driver has read since the last."""
    resident: Any = lane._player._resident  # type: ignore[attr-defined]
    for graph, nodes in zip(resident.executables._made, driver.read, strict=True):
        if not reads_back(lane.plan, resident.part.graphs[graph], resident._addresses, nodes):
            yield f"graph {graph} does not read back as the plan has it"
    driver.read.clear()


if __name__ == "__main__":
    import cadence_runtime.cuda.resident as resident_module

    resident_module.Common = PoisonedCommon  # type: ignore[misc, attr-defined]
    place = None if sys.argv[2] == "recorded" else int(sys.argv[2], 16)
    verdicts = {name: replay(Path(sys.argv[1]), name, place) for name in sys.argv[3:]}
    for told_name, verdict in verdicts.items():
        print(told_name, verdict)
    print("modules:", *sorted({"torch", "pydantic"} & set(sys.modules)))
    sys.exit(any(verdict != "ok" for verdict in verdicts.values()))
