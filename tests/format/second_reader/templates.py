"""Graphs by templates, by the page's "Tables": the lists `values`, `sets`, `templates` and `graphs` behind a 3."""

import struct
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from typing import Any, NamedTuple

from .refused import need
from .tables import Pool, Words

Data = dict[str, Any]
KINDS = ("launch", "fill", "copy")
FILL = ("pitch", "value", "width", "height")
COPY = (
    "width", "height", "depth", "destination_pitch", "destination_height", "source_pitch", "source_height",
)  # fmt: skip
ANY = -(1 << 63)


class Node(NamedTuple):
    """What the graphs of a template have in common in a node; `size_bytes` and `attributes` as its kind has them."""

    kind: str
    op: int
    size_bytes: int
    attributes: list[int]

    def lowest(self) -> Iterator[int]:
        """Yield the least value of each of its numbers."""
        if self.kind == "launch":
            yield from (0 for _ in range(8 + len(self.attributes)))
            yield from (ANY for _ in range((self.size_bytes + 7) // 8))
        else:
            yield from (0 for _ in (FILL if self.kind == "fill" else COPY))


class Template(NamedTuple):
    """What graphs have in common."""

    ops: list[str]
    nodes: list[Node]
    relocations: list[list[int]]
    edges: list[list[int]]
    draws: bool

    def lowest(self) -> Iterator[int]:
        """Yield the least value of each number of a graph."""
        for node in self.nodes:
            yield from node.lowest()
        yield from (0 for _ in self.relocations)
        yield from (0 for _ in range(2 * self.draws))


class Reader:
    """Reads the four lists; `name` reads a string of the section."""

    def __init__(self, words: Words, name: Callable[[], str]) -> None:
        self.words, self.name, self.written = words, name, 0
        self.values = Pool([struct.pack("<8q", *words.some(8, ANY)) for _ in range(words.count())])
        self.sets = Pool([words.counted() for _ in range(words.count())])
        self.templates: list[Template] = []
        rows = [self.template() for _ in range(words.count())]
        need(len({repr(each) for each in self.templates}) == len(self.templates), "templates differ")
        self.values.end()
        self.sets.end()
        self.graphs = self.listed(rows)

    def template(self) -> list[Data]:
        """Return the graphs of the template that follows."""
        start = self.words.at
        ops = [self.name() for _ in range(self.words.count())]
        nodes = [self.node() for _ in range(self.words.count())]
        relocations = [self.words.some(2) for _ in range(self.words.count())]
        edges = [self.words.some(2) + self.words.some(3, 0, 256) for _ in range(self.words.count())]
        template = Template(ops, nodes, relocations, edges, bool(self.words.word(0, 2)))
        self.templates.append(template)
        return [self.graph(template, iter(numbers)) for numbers in self.rows(template, start)]

    def node(self) -> Node:
        kind = KINDS[self.words.word(0, 3)]
        op, size, number = self.words.some(3)
        need(kind != "copy" or size == 0, "a copy has no size")
        need(kind == "launch" or number == 0, "only a launch has a set")
        return Node(kind, op, size, list(self.sets.use(number)) if kind == "launch" else [])

    def rows(self, template: Template, start: int) -> list[list[int]]:
        """Return the numbers of each graph of a template whose words begin at `start`."""
        pairs = [(self.words.word(lower), lower) for lower in template.lowest()]
        first, lowest = [number for number, _ in pairs], [lower for _, lower in pairs]
        length = self.words.at - start
        places = [self.words.word(0, len(first)) for _ in range(self.words.count())]
        need(all(one < other for one, other in pairwise(places)), "places ascend")
        count = self.words.count()
        need(count > 0 or not places, "no places without other graphs")
        self.written += length * (1 + count)
        need(self.written <= 1 << 29, "graphs of at most 2^29 words")
        changes = [[self.words.word(lowest[place]) for place in places] for _ in range(count)]
        for column, place in enumerate(places):
            need(any(change[column] != first[place] for change in changes), "graphs differ at each place")
        others = [{**dict(enumerate(first)), **dict(zip(places, change, strict=True))} for change in changes]
        return [first, *(list(other.values()) for other in others)]

    def graph(self, template: Template, numbers: Iterator[int]) -> Data:
        """Return a graph in the terms of the other forms."""
        nodes = [self.written_out(node, numbers) for node in template.nodes]
        offsets = list(islice(numbers, len(template.relocations)))
        return {
            "nodes": nodes,
            "relocations": [
                {"node": node, "word": word, "offset": offset}
                for (node, word), offset in zip(template.relocations, offsets, strict=True)
            ],
            "edges": [{"before": edge[0], "after": edge[1], "data": edge[2:]} for edge in template.edges],
            "ops": template.ops,
            "philox": list(islice(numbers, 2)) if template.draws else None,
        }

    def written_out(self, node: Node, numbers: Iterator[int]) -> Data:
        if node.kind == "fill":
            fill = dict(zip(FILL, islice(numbers, len(FILL)), strict=True))
            return {**fill, "element_bytes": node.size_bytes, "op": node.op}
        if node.kind == "copy":
            return {**dict(zip(COPY, islice(numbers, len(COPY)), strict=True)), "op": node.op}
        return {
            "kernel": next(numbers),
            "grid": list(islice(numbers, 3)),
            "block": list(islice(numbers, 3)),
            "shared_bytes": next(numbers),
            "attributes": [[attribute, self.values.use(next(numbers))] for attribute in node.attributes],
            "params": parameters(node.size_bytes, numbers),
            "op": node.op,
        }

    def listed(self, rows: list[list[Data]]) -> list[Data]:
        """Return the graphs in the order of the list that follows."""
        templates = Pool(list(range(len(rows))))
        order = [templates.use(number) for number in self.words.counted()]
        templates.end()
        need(all(order.count(number) == len(row) for number, row in enumerate(rows)), "as many graphs as rows")
        following = [iter(row) for row in rows]
        return [next(following[number]) for number in order]


def parameters(size: int, numbers: Iterator[int]) -> bytes:
    """Return the bytes of parameters, whose words have zeros behind them."""
    words = list(islice(numbers, (size + 7) // 8))
    data = struct.pack(f"<{len(words)}q", *words)
    need(not any(data[size:]), "zeros behind parameters")
    return data[:size]
