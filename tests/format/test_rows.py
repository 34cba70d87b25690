"""Rows that stay words: they are the sequence of rows that was put in, and their columns are its columns."""

from array import array
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.format.cuda import Relocation
from cadence_runtime.format.rows import Rows, columns

WORD = st.integers(-(2**63), 2**63 - 1)
LISTED = st.lists(st.builds(Relocation, WORD, WORD, WORD), max_size=9).map(tuple)


def rows_of(listed: tuple[Relocation, ...]) -> Rows[Relocation]:
    return Rows(Relocation, 3, array("q", chain.from_iterable(listed)))


@given(LISTED, st.slices(9))
def test_rows_are_the_sequence_that_was_put_in(listed: tuple[Relocation, ...], part: slice) -> None:
    rows = rows_of(listed)
    assert (rows, len(rows), hash(rows), repr(rows)) == (listed, len(listed), hash(listed), repr(listed))
    assert listed == rows == rows_of(listed)
    assert [rows[index] for index in range(-len(listed), len(listed))] == [*listed, *listed]
    assert rows[part] == listed[part]
    assert all(isinstance(row, Relocation) for row in (*rows, *rows[part]))


@given(LISTED)
def test_columns_are_those_of_any_sequence_of_rows(listed: tuple[Relocation, ...]) -> None:
    expected = [[row[index] for row in listed] for index in range(3)]
    assert [list(column) for column in columns(rows_of(listed), 3)] == expected
    assert [list(column) for column in columns(listed, 3)] == expected


def test_other_rows_are_not_equal() -> None:
    one = Relocation(1, 8, 256)
    assert rows_of((one,)) != (one, one)
    assert rows_of((one,)) != rows_of((Relocation(1, 8, 512),))
    assert rows_of((one,)) != 3
    with pytest.raises(IndexError):
        rows_of((one,))[1]
