"""Where a graph of several captures has what differs between them, and the copies that bring it there and back.

    captures     denoise 0    denoise 1    denoise 2           each buffer that stands elsewhere in each of them
    att[]        att[0]       att[1]       att[2]              gets a place in the section `rows`
    #4           3f2a..       81c0..       1d52..

Captures run one at a time, so all graphs use the section from its start. Buffers that lie one behind the other in the
plan do so in the section too, and are copied as one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cadence_runtime.format.cuda import Move
from cadencec.arena.planner import ALIGNMENT, aligned
from cadencec.targets.cuda.nameless import Use


@dataclass(frozen=True, slots=True)
class Member:
    """A capture of a graph: what its buffers are, and their arena offsets."""

    uses: tuple[Use, ...]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """The places of moving buffers within the section, by the buffer's number, and how much of it they take."""

    offsets: Mapping[int, int]
    size_bytes: int


def rows_of(members: Sequence[Member]) -> Rows:
    """Lay out what a graph cannot find at one aligned place for all its captures."""
    first = members[0]
    moving = [
        number
        for number, place in enumerate(first.places)
        if place % ALIGNMENT or any(member.places[number] != place for member in members)
    ]
    offsets, size_bytes = {}, 0
    for number in sorted(moving, key=lambda number: (first.places[number], number)):
        offsets[number] = size_bytes
        size_bytes += aligned(max(max(m.uses[number].read_bytes, m.uses[number].written_bytes) for m in members))
    return Rows(offsets, size_bytes)


def moves(member: Member, rows: Rows, section: int) -> tuple[tuple[Move, ...], tuple[Move, ...]]:
    """Return the copies before a capture's graph and behind it, with the section at an arena offset."""
    before, after = [], []
    for number, offset in rows.offsets.items():
        use, place, row = member.uses[number], member.places[number], section + offset
        before.append(Move(row, place, use.read_bytes))
        after.append(Move(place, row, use.written_bytes))
    return tuple(_joined(before)), tuple(_joined(after))


def _joined(found: Iterable[Move]) -> Iterator[Move]:
    """Yield the moves of anything, those one that lie side by side at both ends; what is between them is padding."""
    last: Move | None = None
    for move in sorted((move for move in found if move.size_bytes), key=lambda move: move.destination):
        if last is not None and _follows(last, move):
            size = move.destination + move.size_bytes - last.destination
            last = Move(last.destination, last.source, size)
            continue
        if last is not None:
            yield last
        last = move
    if last is not None:
        yield last


def _follows(one: Move, other: Move) -> bool:
    room = aligned(one.size_bytes)
    return (other.destination, other.source) == (one.destination + room, one.source + room)
