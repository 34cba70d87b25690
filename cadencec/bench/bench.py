"""Benches a plan file: live, with how many sessions nobody is late, on both sides; or one push after the other."""

import os.path
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from statistics import median
from typing import Any, cast

import torch

from cadence_runtime import LoadedPlan, Policy, Session, load, measure
from cadence_runtime.check import open_plan
from cadence_runtime.errors import UsageError
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.replace import check_writable, replace_file
from cadencec.bench.plot import plot
from cadencec.bench.report import Bench
from cadencec.bench.run import Conditions, Ran, run_replay, run_stock
from cadencec.bench.stock import StockModel, StockTalker
from cadencec.bench.talk import Talks, Unit
from cadencec.plan.stock import check_spec, stock_jobs
from cadencec.spec import load_spec
from cadencec.spec.spec import Spec
from cadencec.trace.numerics import applied

MOST_SESSIONS = 4096
BLOCK = 50
"""Units of one side before it is the other's turn."""

Progress = Callable[[str, int, int], None]
Run = Callable[[int], Ran]


@dataclass(frozen=True, slots=True)
class Request:
    """What to bench. With `live`, `sessions` are the numbers of sessions to run; without any, the largest number with
    no unit late is looked for on each side. `ahead` is in milliseconds."""

    plan: str
    spec: str
    weights: str | None = None
    policy: str | None = None
    live: bool = False
    sessions: tuple[int, ...] = ()
    seconds: float = 5.0
    ahead: float = 0.0
    lanes: int | None = None
    seed: int = 0
    plot: str | None = None
    overrides: dict[str, str] | None = None


def bench_file(request: Request, progress: Progress) -> Bench:
    """Load a plan and build its stock model, and compare them.

    Raises IncompatibleError CAD6901 for a plan of another spec, UsageError CAD9721 to CAD9724 for what cannot be
    benched or drawn, and whatever loading and building raise.
    """
    if request.plot is not None:
        _check_plot(request, request.plot)
    found = _bench(request, progress)
    if request.plot is not None:
        replace_file(request.plot, [plot(found).encode()])
    return found


def _bench(request: Request, progress: Progress) -> Bench:
    policy = None if request.policy is None else Policy.of_file(request.policy)
    spec = load_spec(request.spec, request.overrides)
    _check(open_plan(request.plan), spec, request)
    with (
        load(request.plan, request.weights, policy=policy, warm=True) as plan,
        torch.random.fork_rng(devices=[]),
        applied(spec.numerics),
    ):
        progress("build", 0, 1)
        has_draws = any(tape.draws for tape in plan.plan.tapes)
        model = StockModel(stock_jobs(spec), plan._player, has_draws)
        talks = Talks(plan.plan, request.seed)
        if request.live:
            return _live(plan, model, talks, request, progress)
        cadence_s = plan.plan.program.cadence_s
        blocks = tuple(_blocks(plan, model, talks, request.seconds, progress))
        random = plan.plan.provenance.random_weights
        name, cadence = plan.plan.provenance.model, None if cadence_s is None else float(cadence_s)
        return Bench(name, cadence, 0.0, request.seconds, None, request.seed, blocks=blocks, random_weights=random)


def _live(plan: LoadedPlan, model: StockModel, talks: Talks, request: Request, progress: Progress) -> Bench:
    cadence_s = float(plan.plan.program.cadence_s or 0)
    conditions = Conditions(cadence_s, request.ahead / 1000, request.seconds, request.lanes, measure(plan))
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
    return Bench(
        plan.plan.provenance.model,
        cadence_s,
        conditions.ahead_s,
        request.seconds,
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


def _blocks(
    plan: LoadedPlan, model: StockModel, talks: Talks, seconds: float, progress: Progress
) -> Iterator[tuple[float, float]]:
    """Yield the median seconds of a push on both sides, for blocks of the same units in turns."""
    talk, talker = talks.talk(0), StockTalker(model, 0)
    end_s = time.monotonic() + seconds
    with plan.session() as session:
        for number in count():
            if number > 1 and time.monotonic() > end_s:
                return
            units = list(islice(talk, BLOCK))
            if not units:
                return
            progress("bench", 0, 1)
            stock_s = median(_timed(talker.push, unit) for unit in units)
            replay_s = median(_timed(partial(_replayed, session), unit) for unit in units)
            if number > 0:  # what is made once is made
                yield stock_s, replay_s


def _replayed(session: Session, unit: Unit) -> None:
    session.push(unit.event, **cast(Any, {**unit.inputs, **unit.choices}))


def _timed(push: Callable[[Unit], object], unit: Unit) -> float:
    before = time.perf_counter()
    push(unit)
    return time.perf_counter() - before


def _check_plot(request: Request, path: str) -> None:
    if not request.live:
        raise UsageError("CAD9723", "`--plot` draws a live bench", expected="`--live`", got="no `--live`")
    for given in (request.plan, request.spec):
        if os.path.realpath(given) == os.path.realpath(path):
            hint = "choose another name for it"
            raise UsageError("CAD9724", "the plot would replace what is benched", at=path, hint=hint)
    check_writable(path)


def _check(plan: Plan, spec: Spec, request: Request) -> None:
    check_spec(plan, spec)
    if plan.target != "cpu":
        raise UsageError("CAD9721", "only plans for the cpu can be benched", expected="cpu", got=plan.target)
    cadence_s = plan.program.cadence_s
    if request.live and (cadence_s is None or request.ahead / 1000 >= cadence_s):
        got = "none" if cadence_s is None else f"{float(cadence_s) * 1000:g} ms, and {request.ahead:g} ms ahead"
        raise UsageError(
            "CAD9722",
            "a live bench needs time for a unit",
            expected="a cadence in the spec, longer than what is ahead",
            got=got,
        )
