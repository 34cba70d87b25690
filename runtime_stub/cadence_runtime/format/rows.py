"""Rows of a long table, kept as words until somebody asks for one.

A plan has a hundred thousand relocations, and a load wants columns of them, never one by one:

    words    0 0 256 | 0 8 512 | 3 16 768        three rows of three words
    columns  0 0 3,  0 8 16,  256 512 768
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from typing import Any, TypeVar, overload

Row_co = TypeVar("Row_co", bound=tuple[int, ...], covariant=True)


class Rows(Sequence[Row_co]):
    """An immutable sequence of rows of `width` words each; `make` makes a row of its words. Equal to any sequence of
    equal rows."""

    __slots__ = ("_columns", "_make")

    def __init__(self, make: Callable[..., Row_co], width: int, words: "array[int]") -> None:
        self._make = make
        self._columns: tuple[Sequence[int], ...] = tuple(words[index::width] for index in range(width))

    @classmethod
    def of_columns(cls, make: Callable[..., Row_co], columns: "Sequence[Sequence[int]]") -> "Rows[Row_co]":
        """Return the rows that have these columns, all of one length."""
        made = cls.__new__(cls)
        made._make, made._columns = make, tuple(columns)
        return made

    def columns(self) -> tuple[Sequence[int], ...]:
        """Return the columns, which are not to be changed."""
        return self._columns

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[Row_co]:
        return starmap(self._make, zip(*self._columns, strict=True))

    @overload
    def __getitem__(self, index: int) -> Row_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Row_co, ...]: ...
    def __getitem__(self, index: int | slice) -> Row_co | tuple[Row_co, ...]:
        if isinstance(index, slice):
            return tuple(starmap(self._make, zip(*(column[index] for column in self._columns), strict=True)))
        return self._make(*(column[index] for column in self._columns))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def columns(rows: Sequence[tuple[int, ...]], width: int) -> Sequence[Sequence[int]]:
    """Return the columns of any sequence of rows of `width` words."""
    if isinstance(rows, Rows):
        return rows.columns()
    found: Any = tuple(zip(*rows, strict=True))
    return found or ((),) * width
