"""Times the reading and checking of a CUDA plan with large graphs, without a GPU: `python scripts/bench_read.py`.

The graphs are those of the golden CUDA plan, each repeated until it has as many nodes as a chunk of Step-Audio 2.
"""

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from cadence_runtime.check import open_plan
from cadence_runtime.format.cuda import Graph, GraphNode, KernelNode
from cadence_runtime.format.writer import write_plan
from cadence_runtime.zstd import compress

GOLDEN = Path(__file__).parents[1] / "plans" / "growing-kv-cat.cuda-sm90.format-1.0.2026-12-01.plan"
NODES, LARGE_GRAPHS, REPEATS = 11_182, 3, 7


def varied(node: GraphNode, copy: int, ops: int) -> GraphNode:
    """Return a node of a copy's own ops that differs from the other copies in its data, as launches of a real graph
    do."""
    node = node._replace(op=node.op + copy * ops)
    if not isinstance(node, KernelNode) or len(node.params) < 4:
        return node
    return node._replace(params=node.params[:-2] + (copy % 300).to_bytes(2, "little"))


def repeated(graph: Graph) -> Graph:
    """Return a graph, one copy of it behind the other, of at least NODES nodes."""
    size = len(graph.nodes)
    copies = range(-(-NODES // size))
    return replace(
        graph,
        nodes=tuple(varied(node, copy, len(graph.ops)) for copy in copies for node in graph.nodes),
        relocations=tuple(r._replace(node=r.node + copy * size) for copy in copies for r in graph.relocations),
        edges=tuple(
            e._replace(before=e.before + copy * size, after=e.after + copy * size)
            for copy in copies
            for e in graph.edges
        ),
        ops=graph.ops * len(copies),
    )


def main() -> None:
    plan = open_plan(GOLDEN)
    part = plan.cuda
    if part is None:
        sys.exit("the golden plan has no graphs")
    large = sorted(range(len(part.graphs)), key=lambda number: -len(part.graphs[number].nodes))[:LARGE_GRAPHS]
    graphs = tuple(repeated(graph) if number in large else graph for number, graph in enumerate(part.graphs))
    nodes, relocations = sum(len(g.nodes) for g in graphs), sum(len(g.relocations) for g in graphs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.plan"
        write_plan(path, replace(plan, cuda=replace(part, graphs=graphs)), compress=compress)
        found = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            open_plan(path)
            found.append(time.perf_counter() - start)
    lower, middle, upper = statistics.quantiles(found, n=4)
    print(f"{nodes} nodes, {relocations} relocations: {middle:.2f} s (quartiles {lower:.2f} to {upper:.2f})")


if __name__ == "__main__":
    main()
