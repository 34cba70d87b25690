"""What a bench found, as data, as text and as JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from cadencec.bench.run import Ran


@dataclass(frozen=True, slots=True)
class Bench:
    """What came out. Runs are by number of sessions; `blocks` has the median seconds of a push, stock and replay, for
    each pair of blocks. Largest numbers are None where they were not looked for. `random_weights` are none of a
    release."""

    model: str
    cadence_s: float | None
    ahead_s: float
    seconds: float
    lanes: int | None
    seed: int
    stock: tuple[Ran, ...] = ()
    replay: tuple[Ran, ...] = ()
    most_stock: int | None = None
    most_replay: int | None = None
    blocks: tuple[tuple[float, float], ...] = ()
    random_weights: bool = False

    @property
    def title(self) -> str:
        """The name of the model, and whether its weights are random."""
        return self.model + ", random weights" * self.random_weights


SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def render(found: Bench) -> str:
    """Return a bench as text."""
    return "\n".join(_live(found) if found.stock else _blocks(found))


def _blocks(found: Bench) -> Iterator[str]:
    ratios = [replay / stock for stock, replay in found.blocks]
    if not ratios:
        yield "too few pushes to compare: give --seconds more"
        return
    lower, middle, upper = quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
    if found.random_weights:
        yield found.title
    stock_us, replay_us = (sorted(side)[len(side) // 2] * 1e6 for side in zip(*found.blocks, strict=True))
    yield f"stock push   {stock_us:8.1f} us"
    yield f"replay push  {replay_us:8.1f} us"
    yield f"ratio        {middle:8.3f}     quartiles {lower:.3f} to {upper:.3f}, {len(ratios)} pairs of blocks"


def _live(found: Bench) -> Iterator[str]:
    lanes = "lanes as suits the pushes" if found.lanes is None else f"{found.lanes} lanes"
    ahead = f", {found.ahead_s * 1000:g} ms of it ahead" if found.ahead_s else ""
    yield f"{found.title}: a unit every {(found.cadence_s or 0) * 1000:g} ms{ahead}, {found.seconds:g} s a run, {lanes}"
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


def to_json(found: Bench) -> dict[str, Any]:
    """Return a bench as JSON, schema `cadencec.bench/1`; times are in seconds."""
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
        "blocks": [{"stock_s": stock, "replay_s": replay} for stock, replay in found.blocks],
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
