"""Words, and the two tables of the timeline, by the page's "Tables"."""

import struct
from math import gcd
from typing import Any

from .refused import need, refuse


class Words:
    """A section of signed 64-bit words, read front to back."""

    def __init__(self, data: bytes) -> None:
        need(len(data) % 8 == 0, "whole words")
        self.words = struct.unpack(f"<{len(data) // 8}q", data)
        self.at = 0

    def word(self, lower: int = 0, upper: int = 1 << 63) -> int:
        """Return the next word, from the half-open range."""
        need(self.at < len(self.words), "a section that ends early")
        value = self.words[self.at]
        need(lower <= value < upper, f"word {self.at}: {value} is not from {lower} to {upper}")
        self.at += 1
        return value

    def count(self) -> int:
        """Return the number of items that follow: at least a word for each."""
        return self.word(0, len(self.words) - self.at)

    def some(self, number: int, lower: int = 0, upper: int = 1 << 63) -> list[int]:
        return [self.word(lower, upper) for _ in range(number)]

    def counted(self, lower: int = 0, upper: int = 1 << 63) -> list[int]:
        return self.some(self.count(), lower, upper)

    def text(self) -> bytes:
        """Return a string: its length, and its bytes padded with zeros to whole words."""
        size = self.word(0, 8 * (len(self.words) - self.at))
        words = self.some((size + 7) // 8, -(1 << 63))
        data = struct.pack(f"<{len(words)}q", *words)
        need(not any(data[size:]), "zeros behind a string")
        return data[:size]

    def end(self) -> None:
        need(self.at == len(self.words), "a section that goes on")


class Pool:
    """A pool: no member twice, each used, first uses in order."""

    def __init__(self, members: list[Any]) -> None:
        need(len({repr(member) for member in members}) == len(members), "a pool holds nothing twice")
        self.members, self.used = members, 0

    def use(self, number: int) -> Any:
        need(0 <= number <= self.used and number < len(self.members), "members stand in the order of first use")
        self.used = max(self.used, number + 1)
        return self.members[number]

    def end(self) -> None:
        need(self.used == len(self.members), "no member is unused")


def nodes(data: bytes, plan: dict[str, Any]) -> list[dict[str, Any]]:
    words, program = Words(data), plan["program"]
    found = []
    for _ in range(words.count()):
        counters = words.some(len(program["counters"]), -(1 << 63))
        lengths = words.some(len(program["regions"]), -1)
        above, below = words.word(), words.word(1)
        need(gcd(above, below) == 1, "lowest terms")
        forms = words.some(len(plan["leaves"]), 0, len(plan["forms"]))
        found.append({"counters": counters, "lengths": lengths, "elapsed": [above, below], "forms": forms})
    words.end()
    return found


def transitions(data: bytes, plan: dict[str, Any]) -> list[dict[str, Any]]:
    words, events, captures, size = Words(data), plan["program"]["events"], len(plan["captures"]), len(plan["nodes"])
    found = []
    for _ in range(words.count()):
        source, number = words.word(0, size), words.word(0, len(events))
        target, ran = words.word(0, size), words.count()
        if ran > len(words.words):
            refuse("more captures than words")
        choices = words.some(len(events[number]["choices"]), -(1 << 63))
        found.append(
            {
                "source": source,
                "event": number,
                "choices": choices,
                "captures": words.some(ran, 0, captures),
                "target": target,
            }
        )
    words.end()
    return found
