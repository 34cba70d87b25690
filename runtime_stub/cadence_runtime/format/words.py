"""Little-endian words of 64 bits, the letters of every binary table; and the reader that no table can lead astray."""

import builtins
import operator
import sys
from array import array
from collections.abc import Iterable, Sequence

from cadence_runtime.errors import PlanError

WORD_BYTES = 8


def pack(words: Iterable[int]) -> bytes:
    """Return signed words as bytes."""
    made = array("q", words)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def unpack(data: bytes) -> "array[int]":
    """Return whole words of bytes as signed numbers."""
    words = array("q")
    words.frombytes(data)
    if sys.byteorder == "big":
        words.byteswap()
    return words


class Words:
    """Reads a section of words from front to back. Raises PlanError CAD5201 for a section that ends too early or too
    late, and CAD5202 for a number out of its range."""

    def __init__(self, section: str, data: bytes) -> None:
        self.section, self.position = section, 0
        if len(data) % WORD_BYTES:
            raise self._wrong_length("whole words of 8 bytes", f"{len(data)} bytes")
        self.words, self._data = unpack(data), data

    def take(self, lower: int, upper: int, what: str) -> int:
        """Return the next word, which lies in the half-open range."""
        if self.position >= len(self.words):
            raise self._wrong_length(what, "the end")
        word = self.words[self.position]
        if not lower <= word < upper:
            raise self.out_of_range(what, lower, upper, word)
        self.position += 1
        return word

    def count(self, what: str, item_words: int = 1) -> int:
        """Return how many items follow, each of at least so many words; never more than there is room for."""
        left = (len(self.words) - self.position - 1) // item_words
        return self.take(0, max(left, 0) + 1, what)

    def block(self, count: int, what: str, lower: int = 0) -> "array[int]":
        """Return the next `count` words, each `lower` or more."""
        upper = self._upper(count, what)
        words = self.words[self.position : upper]
        if words and min(words) < lower:
            raise self.out_of_range(what, lower, 2**63, min(words))
        self.position = upper
        return words

    def many(self, count: int, what: str, lower: int = 0) -> tuple[int, ...]:
        """Return the next `count` words, each `lower` or more."""
        return tuple(self.block(count, what, lower))

    def row(self, uppers: Sequence[int], names: Sequence[str]) -> tuple[int, ...]:
        """Return the next words, each from 0 to below its own upper end."""
        row = tuple(self.words[self.position : self.position + len(uppers)])
        if len(row) == len(uppers) and min(row, default=0) >= 0 and all(map(operator.lt, row, uppers)):
            self.position += len(uppers)
            return row
        return tuple([self.take(0, upper, name) for upper, name in zip(uppers, names, strict=True)])  # says which

    def bytes(self, count: int, what: str) -> bytes:
        """Return the next `count` words as they stand."""
        lower, self.position = self.position, self._upper(count, what)
        return self._data[lower * WORD_BYTES : self.position * WORD_BYTES]

    def since(self, start: int) -> builtins.bytes:
        """Return the words from `start` to here as they stand."""
        return self._data[start * WORD_BYTES : self.position * WORD_BYTES]

    def indices(self, count: int, size: int, what: str) -> tuple[int, ...]:
        """Return the next `count` words, each an index into `size` things."""
        words = self.many(count, what)
        if words and max(words) >= size:
            raise self.out_of_range(what, 0, size, max(words))
        return words

    def _upper(self, count: int, what: str) -> int:
        if count > len(self.words) - self.position:
            raise self._wrong_length(what, "the end")
        return self.position + count

    def finish(self) -> None:
        """Make sure that nothing is left."""
        if self.position != len(self.words):
            left = len(self.words) - self.position
            raise self._wrong_length("the end", f"{left} more word{'s' if left > 1 else ''}")

    def out_of_range(self, what: str, lower: int, upper: int, got: int) -> PlanError:
        """Return what to say of a word that is not in a half-open range."""
        return PlanError(
            "CAD5202",
            f"a number of section `{self.section}` is out of range",
            expected=f"{what} from {lower} to {upper - 1}",
            got=str(got),
            at=f"section `{self.section}`, word {self.position}",
        )

    def _wrong_length(self, expected: str, got: str) -> PlanError:
        return PlanError(
            "CAD5201",
            f"section `{self.section}` has the wrong length",
            expected=expected,
            got=got,
            at=f"section `{self.section}`, word {self.position}",
        )
