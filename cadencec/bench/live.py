"""Benches a plan in real time: with how many sessions nobody is late, on both sides."""

from collections.abc import Callable

import torch

from cadence_runtime import LoadedPlan, Policy, load, measure
from cadencec.bench.live_report import Live
from cadencec.bench.request import Request
from cadencec.bench.run import Conditions, Ran, run_replay, run_stock
from cadencec.bench.stock import StockModel
from cadencec.bench.talk import Talks
from cadencec.plan.stock import stock_jobs
from cadencec.spec.spec import Spec
from cadencec.trace.numerics import applied

MOST_SESSIONS = 4096
SECONDS = 5.0

Progress = Callable[[str, int, int], None]
Run = Callable[[int], Ran]


def bench_live(request: Request, policy: Policy | None, spec: Spec, progress: Progress) -> Live:
    """Load a plan for the CPU and build its stock model, and run both in real time."""
    with (
        load(request.plan, request.weights, policy=policy, warm=True) as plan,
        torch.random.fork_rng(devices=[]),
        applied(spec.numerics),
    ):
        progress("build", 0, 1)
        model = StockModel(stock_jobs(spec), any(tape.draws for tape in plan.plan.tapes))
        return _live(plan, model, Talks(plan.plan, request.seed), request, progress)


def _live(plan: LoadedPlan, model: StockModel, talks: Talks, request: Request, progress: Progress) -> Live:
    cadence_s, seconds = float(plan.plan.program.cadence_s or 0), request.seconds or SECONDS
    conditions = Conditions(cadence_s, request.ahead / 1000, seconds, request.lanes, measure(plan))
    runs: dict[str, tuple[Ran, ...]] = {}
    most: dict[str, int | None] = {}
    sides: dict[str, Run] = {
        "stock": lambda sessions: run_stock(model, talks, sessions, conditions),
        "replay": lambda sessions: run_replay(plan, talks, sessions, conditions),
    }
    for side, run in sides.items():
        run(1)  # what is made once is made
        noted = _noted(run, side, progress)
        if request.sessions:
            runs[side], most[side] = tuple(noted(sessions) for sessions in request.sessions), None
        else:
            runs[side], most[side] = largest(noted)
    return Live(
        plan.plan.provenance.model,
        cadence_s,
        conditions.ahead_s,
        seconds,
        request.lanes,
        request.seed,
        runs["stock"],
        runs["replay"],
        most["stock"],
        most["replay"],
        random_weights=plan.plan.provenance.random_weights,
    )


def _noted(run: Run, side: str, progress: Progress) -> Run:
    def noted(sessions: int) -> Ran:
        progress(f"{side}, {sessions} sessions", 0, 1)
        return run(sessions)

    return noted


def largest(run: Run) -> tuple[tuple[Ran, ...], int]:
    """Double the sessions until a unit is late, then halve the gap down to a twentieth; return all runs, by number, and
    the largest number below which no run had a unit late."""
    runs: dict[int, Ran] = {}
    good, bad = 0, 1
    while bad <= MOST_SESSIONS:
        runs[bad] = run(bad)
        if runs[bad].late:
            break
        good, bad = bad, 2 * bad
    while bad - good > max(1, good // 20) and bad <= MOST_SESSIONS:
        middle = (good + bad) // 2
        runs[middle] = run(middle)
        good, bad = (good, middle) if runs[middle].late else (middle, bad)
    return tuple(runs[sessions] for sessions in sorted(runs)), good
