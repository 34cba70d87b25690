"""Replay a plan through the real runtime beside the released loop, and compare every bit.

Each walk opens two sessions on one loaded plan, with references of their own for each, and pushes events to them in
random turns: random ones, and in the last walk those of long sessions. Outputs are compared at once, and once more when
the walk is over, for nothing may have written to them; then every leaf of the state. A session ends at its first
difference.

The reference is the oracle, where the adapter has one, and otherwise the adapter's own stages run eagerly. An oracle
that does not tell its state has the stages beside it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
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


def verify_file(
    plan: str,
    spec: str,
    *,
    weights: str | None = None,
    policy: str | None = None,
    overrides: Mapping[str, str] | None = None,
    seconds: float = 0.0,
    progress: Progress = lambda phase, done, total: None,
    **counts: int,
) -> VerifyReport:
    """Compare a plan file with the stock model of a spec file; see `verify`, which also takes `counts`. `policy` is a
    file of keys that plan and weights must be signed with."""
    trusted = Policy.of_file(policy) if policy else None
    read = load_spec(spec, overrides)
    return verify(plan, read, weights=weights, policy=trusted, seconds=seconds, progress=progress, **counts)


def verify(
    plan_path: str | Path,
    spec: Spec,
    *,
    weights: str | None = None,
    policy: Policy | None = None,
    seconds: float = 0.0,
    progress: Progress = lambda phase, done, total: None,
    **counts: int,
) -> VerifyReport:
    """Load a plan and compare it; see `verify_loaded`, which also takes `counts`.

    Raises IncompatibleError CAD6901 for a plan of another spec, and whatever loading and building raise.
    """
    with load(str(plan_path), weights=weights, policy=policy) as loaded:
        return verify_loaded(loaded, spec, seconds=seconds, progress=progress, **counts)


def verify_loaded(
    loaded: LoadedPlan,
    spec: Spec,
    *,
    events: int = 200,
    walks: int = 4,
    seconds: float = 0.0,
    turns: int = 3,
    seed: int = 0,
    progress: Progress = lambda phase, done, total: None,
) -> VerifyReport:
    """Compare a plan that is loaded already with freshly built references: over `walks` random walks, `events` pushes
    in all, and then over two sessions of at least `seconds` and `turns` each, none for no seconds."""
    check_spec(loaded.plan, spec)
    device = device_of(loaded.plan)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), applied(spec.numerics):
        progress("build", 0, len(SESSIONS))
        starts = {name: references_of(spec, device) for name in SESSIONS}
        tally = Tally(loaded.plan)
        for walk in range(walks):
            choose = random.Random(f"{seed}/{walk}")  # noqa: S311
            pairs = _pairs(walk, loaded, starts, choose, tally)
            _walk(pairs, events // walks + (walk < events % walks), choose)
            progress("verify", tally.events, events)
        if seconds > 0:
            progress("talk", 0, 1)
            choose = random.Random(f"{seed}/talk")  # noqa: S311
            _talk(_pairs(walks, loaded, starts, choose, tally), Timeline(loaded.plan), (seconds, turns), choose)
    return tally.report(spec.model.name, walks + (seconds > 0))


def references_of(spec: Spec, device: torch.device) -> list[Start]:
    """Build what a session is held to, on a device."""
    oracle = oracle_of(spec, device)
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
