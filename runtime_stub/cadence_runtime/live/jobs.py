"""What waits for a lane: one call each, with a deadline, on behalf of one session."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

Late = OneOf["late", "drop-turn", "refuse"]
"""What becomes of a push that cannot be done by its deadline: `late` does it all the same, `drop-turn` ends the turn,
and what waits behind it, and returns the session to its start, `refuse` leaves the session as it was."""

LATE: tuple[Late, ...] = ("late", "drop-turn", "refuse")


@dataclass(frozen=True, slots=True)
class Report:
    """How a push went: seconds from its coming to its start and from there to its end, and from its deadline to its
    end, negative where it was early. `error` is the code or the class of what it raised, or empty."""

    event: str
    shapes: str
    waited_s: float
    took_s: float
    lateness_s: float
    error: str = ""


@dataclass(slots=True, eq=False)
class Job:
    """`rank` is the session's, counted in the order of opening; `came_s` and `deadline_s` are on the executor's clock,
    `takes_s` is what it is thought to take. `call` runs on the lane's thread; `done` is told there, once, what it
    returned or raised and when it began and ended."""

    rank: int
    event: str
    came_s: float
    deadline_s: float
    takes_s: float
    late: Late
    call: Callable[[], Any]
    done: Callable[["Outcome"], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job came to: one of result and error counts, by whether there is an error."""

    began_s: float
    ended_s: float
    result: Any = None
    error: BaseException | None = None
