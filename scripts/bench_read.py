"""Times the reading and checking of CUDA plans, without a GPU: `python scripts/bench_read.py`.

The graphs are those of the golden CUDA plan, each repeated until it has as many nodes as a chunk of Step-Audio 2. The
load is one with a driver in memory, which does nothing but wait for as long as an H200's takes to make its context.
Then as many keys as MiniCPM-o 4.5 has, of one stage each: every second launch differs in its grid and a parameter.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cadence_runtime import load  # noqa: E402
from cadence_runtime.check import open_plan  # noqa: E402
from cadence_runtime.cuda import driver as door  # noqa: E402
from cadence_runtime.cuda.driver import DeviceInfo  # noqa: E402
from cadence_runtime.format.check_graphs import graph_errors  # noqa: E402
from cadence_runtime.format.cuda import CudaPart, Graph, GraphNode, KernelNode  # noqa: E402
from cadence_runtime.format.graphs import decode_graphs, encode_graphs  # noqa: E402
from cadence_runtime.format.plan import Plan  # noqa: E402
from cadence_runtime.format.templates import by_template  # noqa: E402
from cadence_runtime.format.writer import write_plan  # noqa: E402
from cadence_runtime.zstd import compress  # noqa: E402
from tests.cuda.fake_driver import FakeDriver  # noqa: E402

GOLDEN = ROOT / "plans" / "growing-kv-cat.cuda-sm90.format-1.0.2026-12-01.plan"
NODES, LARGE_GRAPHS, REPEATS = 11_182, 3, 7
KEYS, KEY_NODES, FEW = 2_000, 1_100, 300
CONTEXT_S = 0.32


def varied(node: GraphNode, copy: int) -> GraphNode:
    """Return a node that differs from the other copies in its data, as launches of a real graph do."""
    if not isinstance(node, KernelNode) or len(node.params) < 4:
        return node
    return node._replace(params=node.params[:-2] + (copy % 300).to_bytes(2, "little"))


def repeated(graph: Graph, least: int) -> Graph:
    """Return a graph, one copy of it behind the other, of at least so many nodes."""
    size = len(graph.nodes)
    copies = range(-(-least // size))
    return replace(
        graph,
        nodes=tuple(varied(node, copy) for copy in copies for node in graph.nodes),
        relocations=tuple(r._replace(node=r.node + copy * size) for copy in copies for r in graph.relocations),
        edges=tuple(
            e._replace(before=e.before + copy * size, after=e.after + copy * size)
            for copy in copies
            for e in graph.edges
        ),
        ops=graph.ops * len(copies),
        node_ops=tuple(op + copy * len(graph.ops) for copy in copies for op in graph.node_ops),
    )


def load_s(path: Path, part: CudaPart) -> float:
    """Return what a load of a plan takes, without a graph, weights or anything else on a device."""
    layouts = {k.name: tuple(zip(k.param_offsets, k.param_sizes, strict=True)) for k in part.kernels}
    waits = iter([CONTEXT_S])

    class Waiting(FakeDriver):
        def open(self, device: int) -> DeviceInfo:
            time.sleep(next(waits, 0))  # only the first call makes a context
            return super().open(device)

    door.system_driver = lambda: Waiting(layouts=layouts)
    start = time.perf_counter()
    with load(path):
        return time.perf_counter() - start


def keyed(graph: Graph, key: int) -> Graph:
    """Return a graph as another key has it."""
    nodes = list(graph.nodes)
    for index in range(0, len(nodes), 2):
        node = nodes[index]
        if isinstance(node, KernelNode) and len(node.params) >= 4:
            params = node.params[:-4] + (key + index).to_bytes(4, "little")
            nodes[index] = node._replace(grid=(1 + key, *node.grid[1:]), params=params)
    return replace(graph, nodes=tuple(nodes))


def keys(graph: Graph, count: int) -> Iterator[Graph]:
    """Yield a graph as so many keys have it."""
    one = repeated(graph, KEY_NODES)
    return (keyed(one, key) for key in range(count))


def read_s(part: CudaPart, plan: Plan) -> tuple[int, float]:
    """Return the bytes of a CUDA part, and what it takes to decode and to check it."""
    data = encode_graphs(part)
    start = time.perf_counter()
    read = decode_graphs(data, len(plan.blobs))
    if errors := [error for error in graph_errors(replace(plan, cuda=read)) if error.code != "CAD5701"]:
        sys.exit(str(errors[0]))  # there are more graphs than captures, and nothing else is wrong
    return len(data), time.perf_counter() - start


def told(found: list[float]) -> str:
    """Return a median with its quartiles."""
    lower, middle, upper = statistics.quantiles(found, n=4)
    return f"{middle:.2f} s (quartiles {lower:.2f} to {upper:.2f})"


def main() -> None:
    plan = open_plan(GOLDEN)
    part = plan.cuda
    if part is None:
        sys.exit("the golden plan has no graphs")
    large = sorted(range(len(part.graphs)), key=lambda number: -len(part.graphs[number].nodes))[:LARGE_GRAPHS]
    graphs = tuple(repeated(graph, NODES) if number in large else graph for number, graph in enumerate(part.graphs))
    nodes, relocations = sum(len(g.nodes) for g in graphs), sum(len(g.relocations) for g in graphs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.plan"
        write_plan(path, replace(plan, cuda=replace(part, graphs=graphs)), compress=compress)
        found = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            open_plan(path)
            found.append(time.perf_counter() - start)
        loads = [load_s(path, part) for _ in range(REPEATS)]
    print(f"{nodes} nodes, {relocations} relocations: {told(found)}")
    _, graph, *_ = part.graphs
    for what, graphs in (
        (f"{KEYS} keys by template", by_template(keys(graph, KEYS))),
        (f"{FEW} keys by nodes", tuple(keys(graph, FEW))),
    ):
        runs = [read_s(replace(part, graphs=graphs), plan) for _ in range(REPEATS)]
        print(f"{what}: {runs[0][0] / 1e6:.1f} MB, {told([seconds for _, seconds in runs])}")
    print(f"load, of it {CONTEXT_S} s for the context: {told(loads)}")


if __name__ == "__main__":
    main()
