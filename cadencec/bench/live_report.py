"""What a bench in real time found, as data, as text and as JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from cadencec.bench.run import Ran


@dataclass(frozen=True, slots=True)
class Live:
    """What came out. Runs are by number of sessions. Largest numbers are None where they were not looked for.
    `random_weights` are none of a release."""

    model: str
    cadence_s: float
    ahead_s: float
    seconds: float
    lanes: int | None
    seed: int
    stock: tuple[Ran, ...]
    replay: tuple[Ran, ...]
    most_stock: int | None = None
    most_replay: int | None = None
    random_weights: bool = False

    exit_code: ClassVar[int] = 0

    @property
    def title(self) -> str:
        """The name of the model, and whether its weights are random."""
        return self.model + ", random weights" * self.random_weights


SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def render(found: Live) -> str:
    """Return it as text."""
    return "\n".join(_lines(found))


def _lines(found: Live) -> Iterator[str]:
    lanes = "lanes as suits the pushes" if found.lanes is None else f"{found.lanes} lanes"
    ahead = f", {found.ahead_s * 1000:g} ms of it ahead" if found.ahead_s else ""
    yield f"{found.title}: a unit every {found.cadence_s * 1000:g} ms{ahead}, {found.seconds:g} s a run, {lanes}"
    yield ""
    yield "         sessions    units     late   lateness in ms: p50      p95      p99      max     busy"
    for side, runs in (("stock", found.stock), ("replay", found.replay)):
        for ran in runs:
            yield f"{side:<8} {_row(ran)}"
    if found.most_stock is not None and found.most_replay is not None:
        yield ""
        yield f"none late: {found.most_stock} sessions of the stock loop, {found.most_replay} of the replay"


def _row(ran: Ran) -> str:
    percentiles = " ".join(f"{ran.percentile(share) * 1000:8.2f}" for share in (*SHARES.values(), 1.0))
    return f"{ran.sessions:8} {ran.units:8} {ran.late / ran.units:8.2%} {'':15}{percentiles} {ran.busy:8.0%}"


def to_json(found: Live) -> dict[str, Any]:
    """Return it as JSON, schema `cadencec.bench-live/1`; times are in seconds."""
    return {
        "model": found.model,
        "random_weights": found.random_weights,
        "cadence_s": found.cadence_s,
        "ahead_s": found.ahead_s,
        "seconds": found.seconds,
        "lanes": found.lanes,
        "seed": found.seed,
        "stock": [_run(ran) for ran in found.stock],
        "replay": [_run(ran) for ran in found.replay],
        "most_sessions": {"stock": found.most_stock, "replay": found.most_replay},
    }


def _run(ran: Ran) -> dict[str, Any]:
    shares = {name: ran.percentile(share) for name, share in SHARES.items()}
    return {
        "sessions": ran.sessions,
        "units": ran.units,
        "late": ran.late,
        "lateness_s": {**shares, "max": ran.percentile(1.0)},
        "busy": ran.busy,
    }
