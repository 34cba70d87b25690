"""Replay a plan through the real runtime beside the released loop, and compare every bit.

Each walk opens two sessions on one loaded plan, with references of their own for each, and pushes events to them in
random turns: random ones, and in the last walk those of long sessions. Outputs are compared at once, and once more when
the walk is over, for nothing may have written to them; then every leaf of the state. A session ends at its first
difference.

The reference is the oracle, where the adapter has one, and otherwise the adapter's own stages run eagerly. An oracle
that does not tell its state has the stages beside it. Where names of the spec are not those of the released loop, as in
a spec that `init` wrote, `stages` holds the plan to the adapter's own stages alone.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from cadence_runtime import Policy, load
from cadence_runtime.session import LoadedPlan
from cadencec.plan.stock import check_spec, device_of, oracle_of, stock_jobs
from cadencec.plan.turns import Timeline, session
from cadencec.spec.load import load_spec
from cadencec.spec.spec import Spec
from cadencec.trace.numerics import applied
from cadencec.verify.pair import Pair, Tally
from cadencec.verify.reference import Reference, Released, Stages
from cadencec.verify.report import VerifyReport

SESSIONS = "AB"
Progress = Callable[[str, int, int], None]
Start = Callable[[int], Reference]
"""Begins a session of a reference, seeded."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much is compared: pushes over all walks, walks, turns of a long session at least; and the seed of it all."""

    events: int = 200
    walks: int = 4
    turns: int = 3
    seed: int = 0

    def events_of(self, walk: int) -> int:
        """Return the pushes of one walk."""
        return self.events // self.walks + (walk < self.events % self.walks)


def verify_file(
    plan: str,
    spec: str,
    *,
    weights: str | None = None,
    policy: str | None = None,
    overrides: Mapping[str, str] | None = None,
    stages: bool = False,
    seconds: float = 0.0,
    progress: Progress = lambda phase, done, total: None,
    **counts: int,
) -> VerifyReport:
    """Compare a plan file with the stock model of a spec file; see `verify`, which also takes `counts`. `policy` is a
    file of keys that plan and weights must be signed with."""
    trusted = Policy.of_file(policy) if policy else None
    read = load_spec(spec, overrides)
    return verify(
        plan, read, weights=weights, policy=trusted, stages=stages, seconds=seconds, progress=progress, **counts
    )


def verify(
    plan_path: str | Path,
    spec: Spec,
    *,
    weights: str | None = None,
    policy: Policy | None = None,
    stages: bool = False,
    seconds: float = 0.0,
    progress: Progress = lambda phase, done, total: None,
    **counts: int,
) -> VerifyReport:
    """Load a plan and compare it; see `verify_loaded`, which also takes `counts`.

    Raises IncompatibleError CAD6901 for a plan of another spec, and whatever loading and building raise.
    """
    with load(str(plan_path), weights=weights, policy=policy) as loaded:
        return verify_loaded(loaded, spec, stages=stages, seconds=seconds, progress=progress, **counts)


def verify_loaded(
    loaded: LoadedPlan,
    spec: Spec,
    *,
    stages: bool = False,
    seconds: float = 0.0,
    progress: Progress = lambda phase, done, total: None,
    **counts: int,
) -> VerifyReport:
    """Compare a plan that is loaded already with freshly built references: over random walks, and then over two long
    sessions, each of at least `seconds`, none for no seconds. `counts` are those of `Counts`.

    The references are the released loop where the adapter has it, unless `stages` asks for its own stages. Raises
    TraceError CAD3424 and CAD3426 where the spec has other names than that loop.
    """
    asked = Counts(**counts)
    check_spec(loaded.plan, spec)
    device = device_of(loaded.plan)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), applied(spec.numerics):
        progress("build", 0, len(SESSIONS))
        starts = {name: references_of(spec, device, stages) for name in SESSIONS}
        tally = Tally(loaded.plan)
        for walk in range(asked.walks):
            choose = random.Random(f"{asked.seed}/{walk}")  # noqa: S311
            pairs = _pairs(walk, loaded, starts, choose, tally)
            _walk(pairs, asked.events_of(walk), choose)
            progress("verify", tally.events, asked.events)
        if seconds > 0:
            progress("talk", 0, 1)
            choose = random.Random(f"{asked.seed}/talk")  # noqa: S311
            _talk(
                _pairs(asked.walks, loaded, starts, choose, tally),
                Timeline(loaded.plan),
                (seconds, asked.turns),
                choose,
            )
    return tally.report(spec.model.name, asked.walks + (seconds > 0))


def references_of(spec: Spec, device: torch.device, stages: bool = False) -> list[Start]:
    """Build what a session is held to, on a device."""
    oracle = None if stages else oracle_of(spec, device)
    starts: list[Start] = [] if oracle is None else [partial(Released, oracle, device)]
    if oracle is None or not hasattr(oracle, "state"):
        starts.append(partial(Stages, stock_jobs(spec, device), device))
    return starts


def _pairs(
    walk: int, loaded: LoadedPlan, starts: Mapping[str, Sequence[Start]], choose: random.Random, tally: Tally
) -> list[Pair]:
    """Open the sessions of a walk, each with a seed of its own."""
    pairs = []
    for name in SESSIONS:
        seed = choose.randrange(1 << 30)
        pairs.append(Pair(name, walk, loaded, [start(seed) for start in starts[name]], seed, tally))
    return pairs


def _walk(pairs: list[Pair], events: int, choose: random.Random) -> None:
    """Push random events to the sessions in random turns, then compare what is left to compare."""
    for _ in range(events):
        live = [pair for pair in pairs if not pair.has_ended]
        if not live:
            break
        choose.choice(live).advance(choose)
    for pair in pairs:
        pair.finish()


def _talk(pairs: list[Pair], timeline: Timeline, length: tuple[float, int], choose: random.Random) -> None:
    """Push whole sessions, in random turns, then compare what is left to compare."""
    ahead = {pair.name: session(timeline, *length, choose) for pair in pairs}
    while live := [pair for pair in pairs if not pair.has_ended]:
        pair = choose.choice(live)
        pair.follow(ahead[pair.name], choose)
    for pair in pairs:
        pair.finish()
