"""The rules of graphs by template. What a template says is looked at once, with its first graph; of the others, the
lowest and highest number at each place. Only nodes that these leave in doubt are made for each graph.

    place 9, grid x of node 1        64 96 128 .. 4096        from 1 to 2^31 - 1: so is each of them
    node 4, a fill                   offset to 900, rows to 64, pitch to 16: what has all of these lies within
"""

from array import array
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence

from cadence_runtime.errors import PlanError
from cadence_runtime.format.check_nodes import (
    ATTRIBUTE_BYTES,
    LAUNCH_ATTRIBUTES,
    MAX_BLOCK,
    MAX_GRID,
    MAX_SHARED_BYTES,
    PHILOX_BYTES,
    graph_errors,
    launch_errors,
    move_errors,
    outside,
    params_bytes,
)
from cadence_runtime.format.cuda import CudaPart, KernelNode
from cadence_runtime.format.rows import columns
from cadence_runtime.format.templates import (
    BLOCK_X,
    BLOCK_Z,
    BOX,
    GENERATOR,
    GRID_X,
    KERNEL,
    LAUNCH_NUMBERS,
    OFFSET,
    SHARED,
    VALUE,
    Family,
    Graphs,
    make_graph,
    make_node,
)

LIMITS = {kind: (1, upper) for kind, upper in enumerate((*MAX_GRID, *MAX_BLOCK), start=GRID_X)}
LIMITS[SHARED] = (0, MAX_SHARED_BYTES)
"""From where to where the dimensions of a launch and its shared memory go, by kind."""
AT_ONCE = frozenset([*range(BLOCK_X, BLOCK_Z + 1), BOX, OFFSET, GENERATOR])
"""What is right with the highest numbers of a node if it is right with any."""


def family_errors(part: CudaPart, graphs: Graphs, size: int) -> Iterator[PlanError]:
    """Yield CAD5702 to CAD5706 for all graphs, with an arena of `size` bytes."""
    members: list[list[int]] = [[] for _ in graphs.families]
    for number, index in enumerate(graphs.order):
        members[index].append(number)
    for family, numbers in zip(graphs.families, members, strict=True):
        first = make_graph(family.template, family.first, graphs.values)
        yield from graph_errors(part, first, size, f"graph {numbers[0]}", set())
        if family.others:
            yield from _Others(part, graphs.values, family, size).errors(numbers)


class _Others:
    """Looks at the graphs of a family behind the first, whose template is known to be right or was complained of."""

    def __init__(self, part: CudaPart, values: Sequence[bytes], family: Family, size: int) -> None:
        self._part, self._values, self._family, self._size = part, values, family, size
        self._template = family.template
        self._kinds, self._starts = family.template.kinds(), family.template.starts()
        self._pointed, words = columns(family.template.places, 2)
        self._pointers: dict[int, dict[int, int]] = defaultdict(dict)  # of each node: where the offset of a word stands
        for place, (node, word) in enumerate(zip(self._pointed, words, strict=True), start=self._starts[-1]):
            self._pointers[node][word] = place

    def errors(self, members: Sequence[int]) -> Iterator[PlanError]:
        """Yield what is wrong with them. `members` are the numbers of all graphs of the family."""
        doubtful = sorted(self._doubtful())
        for index, number in enumerate(members[1:] if doubtful else (), start=1):
            numbers = self._family.numbers(index)
            for node in doubtful:
                yield from self._node_errors(node, numbers, f"graph {number}")

    def _doubtful(self) -> set[int]:
        """Return the nodes whose numbers need a closer look in each graph; the generator comes behind the last."""
        highest, changed, found = self._family.first[:], set(), set()
        for place, column in self._family.columns():
            kind, end = self._kinds[place], self._starts[-1]
            node = self._pointed[place - end] if kind == OFFSET else bisect(self._starts, place) - 1
            highest[place] = max(highest[place], *column)
            if not self._is_plain(kind, node, place, column):
                found.add(node)
            if kind in AT_ONCE:
                changed.add(node)
        return found | {node for node in changed if next(self._node_errors(node, highest, ""), None)}

    def _is_plain(self, kind: int, node: int, place: int, column: Sequence[int]) -> bool:
        """Return whether numbers are right whatever the others of their node are."""
        if kind in LIMITS:
            lower, upper = LIMITS[kind]
            return lower <= min(column) and max(column) <= upper
        if kind == KERNEL:
            size, kernels = self._template.shapes[node].size, self._part.kernels
            return all(0 <= kernel < len(kernels) and params_bytes(kernels[kernel]) == size for kernel in set(column))
        if kind == VALUE:
            name = self._template.shapes[node].attributes[place - self._starts[node] - LAUNCH_NUMBERS]
            values = [self._values[value] for value in set(column)]
            whole = all(len(value) == ATTRIBUTE_BYTES for value in values)
            return whole and (name in LAUNCH_ATTRIBUTES or not any(map(any, values)))
        return True

    def _node_errors(self, node: int, numbers: "array[int]", where: str) -> Iterator[PlanError]:
        if node >= len(self._template.shapes):
            if self._template.draws:
                yield from outside("the state of the generator", numbers[-2], PHILOX_BYTES, self._size, where)
            return
        at = f"{where}, node {node}"
        made = make_node(self._template.shapes[node], numbers, self._starts[node], self._values)
        pointers = {word: numbers[place] for word, place in self._pointers[node].items()}
        if isinstance(made, KernelNode):
            yield from launch_errors(self._part, made, at)
            for offset in pointers.values():
                yield from outside("a pointer", offset, 0, self._size, at)
        else:
            yield from move_errors(made, pointers, self._size, at)
