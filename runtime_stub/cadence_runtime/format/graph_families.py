"""Graphs of form 3, by template: a key costs the numbers in which it differs.

    values      count, then 64 bytes each: the value of a launch's attribute
    sets        count, then each: number of attributes and each
    templates   count, then each: number of ops and each (string); number of nodes and (kind, op, size, set) of each;
                number of relocations and (node, word) of each; number of edges and (before, after, from port, to port,
                type) of each; 1 if its graphs draw, else 0; the numbers of the first graph; number of places and each;
                number of other graphs, and the numbers of each at these places
    graphs      count, then the template of each

What the numbers of a graph are, `templates.py` says.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import compress

from cadence_runtime.errors import PlanError
from cadence_runtime.format.graph_words import MAX, MAX_ATTRIBUTE, FirstUse, PartReader, Strings, counted
from cadence_runtime.format.templates import (
    BOX,
    COPY,
    LAST_WORD,
    LAUNCH,
    VALUE,
    WORD,
    Family,
    Graphs,
    Shape,
    Template,
)
from cadence_runtime.format.words import unpack

VALUE_WORDS = 8
NODE_WORDS = 4
MAX_SIZE = 1 << 20
LEAST = -(2**63)
MAX_WRITTEN_OUT = 1 << 29
"""Words of all graphs, with what is in a template written out for each."""


def family_words(graphs: Graphs, strings: Strings) -> list[int]:
    """Return the graphs by template."""
    sets: dict[tuple[int, ...], int] = {}
    templates = [list(_template(family, strings, sets)) for family in graphs.families]
    return [
        *counted(unpack(value) for value in graphs.values),
        *counted(map(counted_words, sets)),
        *counted(templates),
        *counted_words(graphs.order),
    ]


def counted_words(words: Sequence[int]) -> list[int]:
    """Return words behind their count."""
    return [len(words), *words]


def _template(family: Family, strings: Strings, sets: dict[tuple[int, ...], int]) -> Iterator[int]:
    template = family.template
    yield from counted_words([strings(op) for op in template.ops])
    yield len(template.shapes)
    for shape, op in zip(template.shapes, template.node_ops, strict=True):
        number = sets.setdefault(shape.attributes, len(sets)) if shape.kind == LAUNCH else 0
        yield from (shape.kind, op, shape.size, number)
    yield from counted(template.places)
    yield from counted(template.edges)
    yield int(template.draws)
    yield from family.first
    yield from counted_words(family.places)
    yield family.others
    yield from family.rows


class FamilyReader:
    """Reads the graphs, none of them one by one."""

    def __init__(self, around: PartReader) -> None:
        self._around, self.words = around, around.words
        self._strings, self._sets, self._values, self._order = (FirstUse() for _ in range(4))
        self._strings(around.asked)
        self._shapes: dict[tuple[int, int, int], Shape] = {}
        self._raw_sets: set[bytes] = set()
        self._raw_templates: set[bytes] = set()
        self._written_out = 0
        words = self.words
        self.values = [words.bytes(VALUE_WORDS, "a value") for _ in range(words.count("values", VALUE_WORDS))]
        self.sets = [self._set() for _ in range(words.count("sets"))]
        families = tuple(self._family() for _ in range(words.count("templates", 8)))
        order = words.indices(words.count("graphs"), len(families), "a template")
        self._order(order)
        self._require_rows(families, order)
        self.graphs = Graphs(tuple(self.values), families, order)

    def require_one_form(self) -> None:
        """Raise PlanError CAD5204 unless everything stands where writing the part again would put it."""
        pools: tuple[tuple[FirstUse, Sequence[object]], ...] = (
            (self._strings, self._around.strings),
            (self._sets, self.sets),
            (self._values, self.values),
            (self._order, self.graphs.families),
        )
        complete = all(order.in_order and order.used == len(pool) for order, pool in pools)
        once = all(len(set(pool)) == len(pool) for pool in (self._around.strings, self.values))
        alike = len(self._raw_sets) < len(self.sets) or len(self._raw_templates) < len(self.graphs.families)
        if not complete or not once or alike:
            raise self._other_form(
                "strings, sets, values and templates once each, in the order of their first use",
                "another order, or something twice",
            )

    def _set(self) -> tuple[int, ...]:
        start = self.words.position
        found = self.words.indices(self.words.count("attributes"), MAX_ATTRIBUTE, "an attribute")
        self._raw_sets.add(self.words.since(start))
        return found

    def _family(self) -> Family:
        start = self.words.position
        template = self._template()
        kinds = template.kinds()
        first = self.words.block(len(kinds), "the numbers of a graph", LEAST)
        length = self.words.position - start
        places = self.words.block(self.words.count("places"), "places")
        others = self.words.count("graphs", max(len(places), 1))
        rows = self.words.block(len(places) * others, "the numbers of a graph", LEAST)
        family = Family(template, first, places, rows, others)
        self._written_out += length * family.count
        if self._written_out > MAX_WRITTEN_OUT:
            raise PlanError(
                "CAD5709",
                "the graphs of a plan are too long",
                expected=f"at most {MAX_WRITTEN_OUT} words, each graph in full",
                got=f"{self._written_out} or more",
            )
        self._require_numbers(family, kinds)
        self._values(self._values_in(family, kinds))
        return family

    def _template(self) -> Template:
        start = self.words.position
        numbers, ops = self._around.ops()
        shapes, node_ops = self._nodes(max(len(ops), 1))
        places = self._around.rows("relocations", lambda *row: row, 2)
        edges = self._around.edges()
        draws = self.words.take(0, 2, "0 or 1")
        self._raw_templates.add(self.words.since(start))
        self._strings(numbers)
        return Template(ops, shapes, node_ops, places, edges, draws == 1)

    def _nodes(self, ops: int) -> tuple[tuple[Shape, ...], tuple[int, ...]]:
        kinds, node_ops, sizes, sets = self._around.rows("nodes", lambda *row: row, NODE_WORDS).columns()
        for column, upper, what in (
            (kinds, COPY + 1, "a kind of node"),
            (node_ops, ops, "an op"),
            (sizes, MAX_SIZE + 1, "the size of a node"),
            (sets, max(len(self.sets), 1), "a set of attributes"),
        ):
            if max(column, default=0) >= upper:
                raise self.words.out_of_range(what, 0, upper, max(column))
        self._sets(compress(sets, map(LAUNCH.__eq__, kinds)))
        return tuple(map(self._shape, kinds, sizes, sets)), tuple(node_ops)

    def _shape(self, kind: int, size: int, attributes: int) -> Shape:
        found = self._shapes.get((kind, size, attributes))
        if found is None:
            if (kind != LAUNCH and attributes) or (kind == COPY and size):
                raise self.words.out_of_range("nothing of a node that has none", 0, 1, attributes or size)
            if kind == LAUNCH and not self.sets:
                raise self.words.out_of_range("a set of attributes", 0, 0, 0)
            found = Shape(kind, size, self.sets[attributes] if kind == LAUNCH else ())
            self._shapes[kind, size, attributes] = found
        return found

    def _require_numbers(self, family: Family, kinds: bytes) -> None:
        """Hold places to those where graphs differ, and each number to what it is."""
        places, first = family.places, family.first
        if not all(map(operator.lt, places, places[1:])):
            raise self._other_form("places in ascending order", "another order")
        if places and places[-1] >= len(kinds):
            raise self.words.out_of_range("a place", 0, len(kinds), places[-1])
        if places and not family.others:
            raise self._other_form("no places without other graphs", str(len(places)))
        self._require(BOX, min(compress(first, kinds.translate(UNSIGNED)), default=0), 0)
        ends = kinds.translate(BOUNDED)
        for kind, number in zip(compress(kinds, ends), compress(first, ends), strict=True):
            self._require(kind, number, number)
        for place, column in family.columns():
            low, high = min(column), max(column)
            self._require(kinds[place], low, high)
            if low == high == first[place]:
                raise self._other_form("places at which some graph differs from the first", f"place {place}")

    def _require(self, kind: int, low: int, high: int) -> None:
        """Hold numbers from `low` to `high` to what they are."""
        if kind == WORD:
            return
        upper = len(self.values) if kind == VALUE else 1 << 8 * (kind - LAST_WORD) if kind > LAST_WORD else MAX + 1
        if low < 0 or high >= upper:
            raise self.words.out_of_range("a number of a graph", 0, upper, low if low < 0 else high)

    def _values_in(self, family: Family, kinds: bytes) -> Iterator[int]:
        """Yield the numbers of values as they stand: the first graph's, then row by row."""
        yield from compress(family.first, kinds.translate(VALUED))
        valued = [index for index, place in enumerate(family.places) if kinds[place] == VALUE]
        if valued:
            width = len(family.places)
            for start in range(0, len(family.rows), width):
                yield from (family.rows[start + index] for index in valued)

    def _require_rows(self, families: Sequence[Family], order: Sequence[int]) -> None:
        """Every graph of the list stands in its template."""
        counts = Counter(order)
        for number, family in enumerate(families):
            if counts[number] != family.count:
                raise self._other_form(f"{family.count} graphs of template {number}", f"{counts[number]} in the list")

    @staticmethod
    def _other_form(expected: str, got: str) -> PlanError:
        return PlanError("CAD5204", "section `graphs` is not in its one form", expected=expected, got=got)


def _mask(wanted: Callable[[int], bool]) -> bytes:
    """Return a table for `bytes.translate` that gives 1 for some kinds of numbers and 0 for the others."""
    return bytes(map(wanted, range(256)))


UNSIGNED, VALUED = _mask(lambda kind: kind != WORD), _mask(lambda kind: kind == VALUE)
BOUNDED = _mask(lambda kind: kind == VALUE or kind > LAST_WORD)
