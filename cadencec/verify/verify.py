"""Replay a plan through the real runtime beside the stock model, and compare every bit.

Each walk opens two sessions on one loaded plan, with a stock model of its own for each, and pushes random events to
them in random turns. Outputs are compared at once, and once more when the walk is over, for nothing may have written to
them; then every leaf of the state. A session ends at its first difference.
"""

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from cadence_runtime import Policy, load
from cadence_runtime.session import LoadedPlan
from cadencec.plan.stock import check_spec, stock_jobs
from cadencec.spec.load import load_spec
from cadencec.spec.spec import Spec
from cadencec.trace.numerics import applied
from cadencec.verify.pair import Pair, Tally
from cadencec.verify.report import VerifyReport

SESSIONS = "AB"
Progress = Callable[[str, int, int], None]


def verify_file(
    plan: str,
    spec: str,
    *,
    weights: str | None = None,
    policy: str | None = None,
    overrides: Mapping[str, str] | None = None,
    progress: Progress = lambda phase, done, total: None,
    **counts: int,
) -> VerifyReport:
    """Compare a plan file with the stock model of a spec file; see `verify`, which also takes `counts`. `policy` is a
    file of keys that plan and weights must be signed with."""
    trusted = Policy.of_file(policy) if policy else None
    return verify(plan, load_spec(spec, overrides), weights=weights, policy=trusted, progress=progress, **counts)


def verify(
    plan_path: str | Path,
    spec: Spec,
    *,
    weights: str | None = None,
    policy: Policy | None = None,
    events: int = 200,
    walks: int = 4,
    seed: int = 0,
    progress: Progress = lambda phase, done, total: None,
) -> VerifyReport:
    """Load a plan and compare it with freshly built stock models over `walks` random walks, `events` pushes in all.

    Raises IncompatibleError CAD6901 for a plan of another spec, and whatever loading and building raise.
    """
    with load(str(plan_path), weights=weights, policy=policy) as loaded:
        return verify_loaded(loaded, spec, events=events, walks=walks, seed=seed, progress=progress)


def verify_loaded(
    loaded: LoadedPlan,
    spec: Spec,
    *,
    events: int = 200,
    walks: int = 4,
    seed: int = 0,
    progress: Progress = lambda phase, done, total: None,
) -> VerifyReport:
    """Compare a plan that is loaded already; see `verify`."""
    check_spec(loaded.plan, spec)
    with torch.random.fork_rng(devices=[]), applied(spec.numerics):
        progress("build", 0, len(SESSIONS))
        models = {name: stock_jobs(spec) for name in SESSIONS}
        tally = Tally(loaded.plan)
        for walk in range(walks):
            choose = random.Random(f"{seed}/{walk}")  # noqa: S311
            pairs = [Pair(name, walk, loaded, models[name], choose.randrange(1 << 30), tally) for name in SESSIONS]
            _walk(pairs, events // walks + (walk < events % walks), choose)
            progress("verify", tally.events, events)
    return tally.report(spec.model.name, walks)


def _walk(pairs: list[Pair], events: int, choose: random.Random) -> None:
    """Push events to the sessions in random turns, then compare what is left to compare."""
    for _ in range(events):
        live = [pair for pair in pairs if not pair.has_ended]
        if not live:
            break
        choose.choice(live).advance(choose)
    for pair in pairs:
        pair.finish()
