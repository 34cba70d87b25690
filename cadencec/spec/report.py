"""Where things stand in a spec, and the errors found there so far.

A *location* is the path of a value through the document: `("regions", "kv", "shape", 2)`. An item of a list that is a
name, or one name with its description, is also found by that name: `("stages", "step", "inputs", "x")`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cadence_runtime.errors import CadenceError, SpecError, raise_all
from cadence_runtime.host.expression import ExpressionError
from cadencec.spec.source import Mapping, Mark, Node, Scalar, Sequence

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key and its value stand; `origin` is the file, or the override that set the value. `text` is where the
    first character of a scalar's text stands, or None where columns of the text are not columns of the file."""

    origin: str
    key: Mark
    value: Mark
    text: Mark | None


@dataclass(slots=True)
class Places:
    """The place of every location of one document."""

    path: str
    table: dict[Location, Place] = field(default_factory=dict)

    def add(self, location: Location, node: Node, origin: str, key: Mark | None = None) -> None:
        """Note the places of a value and of everything in it."""
        text = node.text_mark if isinstance(node, Scalar) else None
        self.table[location] = Place(origin, key or node.mark, node.mark, text)
        for step, child, child_key in _children(node):
            self.add((*location, step), child, origin, child_key)

    def replace(self, location: Location, node: Node | None, origin: str) -> None:
        """Note the place of a value that an override set, and forget what stood there."""
        for old in [known for known in self.table if known[: len(location)] == location]:
            del self.table[old]
        if node is None:
            self.table[location] = Place(origin, Mark(1, 1), Mark(1, 1), None)
        else:
            self.add(location, node, origin)

    def find(self, location: Location) -> Place:
        """Return the place of a location, or of the nearest thing around it."""
        for end in range(len(location), 0, -1):
            if location[:end] in self.table:
                return self.table[location[:end]]
        return self.table.get((), Place(self.path, Mark(1, 1), Mark(1, 1), None))


def _children(node: Node) -> Iterator[tuple[str | int, Node, Mark]]:
    if isinstance(node, Mapping):
        for key, value in node.entries:
            yield key.text, value, key.mark
    elif isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield index, item, item.mark
            if isinstance(item, Scalar):
                yield item.text, item, item.mark
            elif isinstance(item, Mapping) and len(item.entries) == 1:
                yield item.entries[0][0].text, item.entries[0][1], item.entries[0][0].mark


@dataclass(slots=True)
class Report:
    """Collects independent errors. Of two at one place only those of the earlier pass stand, since the later ones are
    mostly its echo.

    `unreadable` are the entries that are declared but did not read: (table, name), or (table, "*") for a whole table.
    Nothing that refers to them is called unknown.
    """

    places: Places
    unreadable: set[tuple[str, str]] = field(default_factory=set)
    found: list[tuple[tuple[bool, str, Mark], int, CadenceError]] = field(default_factory=list)
    current_pass: int = 0

    def next_pass(self) -> None:
        """Begin the next pass over the document."""
        self.current_pass += 1

    def is_unreadable(self, table: str, name: str) -> bool:
        """Return whether an entry of a table is declared but did not read."""
        return (table, name) in self.unreadable or (table, "*") in self.unreadable

    def has_unreadable(self, table: str) -> bool:
        """Return whether any entry of a table did not read."""
        return any(section == table for section, _ in self.unreadable)

    def add(self, error: CadenceError, location: Location, *, key: bool = False) -> None:
        """Note an error at a value, or at its key; an expression's error is placed at its column."""
        place = self.places.find(location)
        mark = place.key if key else place.value
        if isinstance(error, ExpressionError) and place.text is not None:
            mark = Mark(place.text.line, place.text.column + error.column - 1)
        self._note(error, place.origin, mark)

    def add_placed(self, errors: Iterable[CadenceError]) -> None:
        """Note errors of the reader, which already say where they stand."""
        for error in errors:
            place = re.fullmatch(r"(.*):([0-9]+):([0-9]+)", error.at or "", re.DOTALL)
            origin, mark = (place[1], Mark(int(place[2]), int(place[3]))) if place else (error.at or "", Mark(1, 1))
            self._note(error, origin, mark)

    def raise_found(self) -> None:
        """Raise what was found, sorted by place: the file first, then the overrides."""
        first_pass: dict[object, int] = {}
        for place, number, _ in self.found:
            first_pass.setdefault(place, number)
        kept = [entry for entry in self.found if entry[1] == first_pass[entry[0]]]
        messages = {error.render(): error for _, _, error in sorted(kept, key=lambda entry: entry[0])}
        raise_all(messages.values())

    def _note(self, error: CadenceError, origin: str, mark: Mark) -> None:
        at = f"{origin}:{mark.line}:{mark.column}"
        placed = SpecError(error.code, error.what, expected=error.expected, got=error.got, at=at, hint=error.hint)
        self.found.append(((origin != self.places.path, origin, mark), self.current_pass, placed))


class Subject:
    """One thing of the spec while it is built; `is_good` tells whether anything about it was wrong."""

    def __init__(self, location: Location, report: Report) -> None:
        self.location, self.report = location, report
        self.is_good = True

    def fail(self, code: str, what: str, *steps: str | int, key: bool = False, **parts: str | None) -> None:
        """Report an error at a value of the subject, at its key, or without steps at the subject itself."""
        self.is_good = False
        self.report.add(SpecError(code, what, **parts), (*self.location, *steps), key=key or not steps)
