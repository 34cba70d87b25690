"""What is asked of a bench."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """What to bench. `seconds` are the length of a session by the clocks, of a run in real time with `live`; None for
    60 and 5. `turns`, `rounds`, `starts` and `stages` are of a comparison, the rest of live runs: `sessions` are the
    numbers of sessions to run; without any, the largest number with no unit late is looked for on each side. `ahead` is
    in milliseconds."""

    plan: str
    spec: str
    weights: str | None = None
    policy: str | None = None
    seconds: float | None = None
    turns: int = 3
    rounds: int = 5
    starts: int = 1
    stages: bool = False
    live: bool = False
    sessions: tuple[int, ...] = ()
    ahead: float = 0.0
    lanes: int | None = None
    seed: int = 0
    plot: str | None = None
    overrides: dict[str, str] | None = None
