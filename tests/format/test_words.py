"""The reader of words: what it takes in bulk is what it takes one by one, and so are its errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.errors import PlanError
from cadence_runtime.format.words import Words, pack

WORDS = st.lists(st.integers(-2, 9), max_size=6)
UPPERS = st.lists(st.integers(0, 9), max_size=6)


def taken(words: list[int], uppers: list[int], in_bulk: bool) -> tuple[object, int]:
    """Return a row, or the message of the error, and where the reader stands."""
    reader, names = Words("tapes", pack(words)), [f"number {index}" for index in range(len(uppers))]
    try:
        if in_bulk:
            return reader.row(uppers, names), reader.position
        return tuple(reader.take(0, upper, name) for upper, name in zip(uppers, names, strict=True)), reader.position
    except PlanError as error:
        return str(error), reader.position


@given(WORDS, UPPERS)
def test_a_row_is_its_words_one_by_one(words: list[int], uppers: list[int]) -> None:
    assert taken(words, uppers, in_bulk=True) == taken(words, uppers, in_bulk=False)


@given(WORDS, st.integers(0, 6))
def test_words_as_bytes(words: list[int], count: int) -> None:
    reader = Words("tapes", pack(words))
    if count > len(words):
        with pytest.raises(PlanError, match="CAD5201"):
            reader.bytes(count, "a string")
    else:
        assert (reader.bytes(count, "a string"), reader.position) == (pack(words[:count]), count)


def test_the_word_of_a_row_that_is_wrong_is_named() -> None:
    with pytest.raises(PlanError) as caught:
        Words("graphs", pack([1, 7, 2])).row((2, 7, 9), ("a kernel", "a launch", "a string"))
    assert str(caught.value) == (
        "CAD5202: a number of section `graphs` is out of range\n"
        "  expected: a launch from 0 to 6\n"
        "  got:      7\n"
        "  at:       section `graphs`, word 1"
    )
