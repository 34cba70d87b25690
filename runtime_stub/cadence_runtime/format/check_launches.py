"""The rules of launches: which graph a capture is, and what is copied around it.

before   weights, constants, state  ->  rows         after   rows  ->  state
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from cadence_runtime.errors import PlanError
from cadence_runtime.format.cuda import CudaPart, Move
from cadence_runtime.format.plan import Plan, Section

ROWS, STATE = "rows", "state"
SOURCES = ("weights", "constants", STATE)


def launch_errors(plan: Plan, part: CudaPart) -> Iterator[PlanError]:
    """Yield CAD5701 and CAD5708."""
    if not part.launches:
        if len(part.graphs) != len(plan.captures):
            expected, got = f"{len(plan.captures)} graphs", str(len(part.graphs))
            yield PlanError("CAD5701", "captures and graphs differ", expected=expected, got=got)
        return
    if len(part.launches) != len(plan.captures):
        expected, got = f"{len(plan.captures)} launches", str(len(part.launches))
        yield PlanError("CAD5701", "captures and launches differ", expected=expected, got=got)
    unused = set(range(len(part.graphs))) - {launch.graph for launch in part.launches}
    if unused:
        got = f"graph {min(unused)} in none"
        yield PlanError("CAD5701", "a graph belongs to no capture", expected="each in a launch", got=got)
    sections: dict[str, Section] = {section.name: section for section in plan.sections}
    rows = [sections[ROWS]] if ROWS in sections else []
    sources = [sections[name] for name in SOURCES]
    for number, launch in enumerate(part.launches):
        yield from _bad_moves(launch.before, rows, sources, f"launch {number}, before")
        yield from _bad_moves(launch.after, [sections[STATE]], rows, f"launch {number}, after")


def _bad_moves(
    moves: Sequence[Move], into: Sequence[Section], out_of: Sequence[Section], at: str
) -> Iterator[PlanError]:
    for move in moves:
        for what, offset, allowed in (("target", move.destination, into), ("source", move.source, out_of)):
            if not any(_inside(section, offset, move.size_bytes) for section in allowed):
                yield PlanError(
                    "CAD5708",
                    f"the {what} of a move lies elsewhere",
                    expected="bytes of " + (" or ".join(f"`{section.name}`" for section in allowed) or f"`{ROWS}`"),
                    got=f"bytes {offset} to {offset + move.size_bytes}",
                    at=at,
                )
    targets = sorted((move.destination, move.destination + move.size_bytes) for move in moves)
    if any(lower < upper for (_, upper), (lower, _) in pairwise(targets)):
        yield PlanError(
            "CAD5708", "moves write the same bytes", expected="bytes of its own for each", got="an overlap", at=at
        )


def _inside(section: Section, offset: int, size_bytes: int) -> bool:
    return section.offset <= offset and 0 < size_bytes <= section.offset + section.size_bytes - offset
