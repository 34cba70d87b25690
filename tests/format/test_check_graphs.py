"""Relocations are judged by columns, and one by one only where something is wrong: the two have to agree. And what no
file can say, but a part in memory can."""

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from cadence_runtime.format.check_graphs import graph_errors
from cadence_runtime.format.check_nodes import _bad_rows, relocations_fit
from cadence_runtime.format.cuda import Graph, KernelNode, MemcpyNode, Relocation
from cadence_runtime.format.rows import columns
from tests.format.plans import cuda_example

SIZE = 64
LAUNCH = KernelNode(0, (1, 1, 1), (1, 1, 1), 0, bytes(24), ())
NODES = (LAUNCH, LAUNCH._replace(params=bytes(9)), MemcpyNode(1, 1, 1, 1, 1, 1, 1))
ROW = st.builds(Relocation, st.integers(-1, 3), st.integers(-1, 17), st.integers(-1, SIZE + 1))
SOUND = st.builds(Relocation, st.just(0), st.sampled_from([0, 8, 16]), st.integers(0, SIZE))


@given(st.lists(ROW, max_size=3) | st.lists(SOUND, max_size=3).map(sorted))
def test_columns_and_rows_agree(rows: list[Relocation]) -> None:
    fit = relocations_fit(NODES, columns(rows, 3), SIZE)
    event(f"fit: {fit}")
    errors = list(_bad_rows(Graph(NODES, tuple(rows), (), (), (0,) * 3), SIZE, "graph 0"))
    moves = [row for row in rows if row.node == 2 and not 0 <= row.word <= 8]  # whose words `move_errors` compares
    assert fit == (not errors and not moves)


def test_every_node_has_an_op() -> None:
    plan = cuda_example()
    assert plan.cuda is not None
    first, *others = plan.cuda.graphs
    graphs = (replace(first, node_ops=(0, 1)), *others)
    (error,) = graph_errors(replace(plan, cuda=replace(plan.cuda, graphs=graphs)))
    assert str(error) == (
        "CAD5703: not every node has the number of its op\n  expected: 3 of them\n  got:      2\n  at:       graph 0"
    )
