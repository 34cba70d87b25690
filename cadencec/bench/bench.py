"""Benches a plan file: the replay against the stock model in turns, or both in real time."""

import os.path
from collections.abc import Callable
from typing import Any

from cadence_runtime import Policy
from cadence_runtime.check import open_plan
from cadence_runtime.errors import UsageError
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.replace import check_writable, replace_file
from cadencec.bench import live_report, report
from cadencec.bench.compare import compare
from cadencec.bench.found import Comparison
from cadencec.bench.live import bench_live
from cadencec.bench.live_report import Live
from cadencec.bench.plot import plot
from cadencec.bench.request import Request
from cadencec.plan.stock import check_spec
from cadencec.spec import load_spec

Progress = Callable[[str, int, int], None]


def bench_file(request: Request, progress: Progress) -> Comparison | Live:
    """Compare a plan with its stock model.

    Raises IncompatibleError CAD6901 for a plan of another spec, UsageError CAD9721 to CAD9724 for what cannot be
    benched or drawn, DeviceError CAD8030 for a process that ends by itself, and whatever loading and building raise.
    """
    policy = None if request.policy is None else Policy.of_file(request.policy)
    if request.plot is not None:
        _check_plot(request, request.plot)
    plan, spec = open_plan(request.plan), load_spec(request.spec, request.overrides)
    check_spec(plan, spec)
    if not request.live:
        return compare(request, plan, spec, progress)
    _check_live(plan, request)
    live = bench_live(request, policy, spec, progress)
    if request.plot is not None:
        replace_file(request.plot, [plot(live).encode()])
    return live


def render(found: Comparison | Live) -> str:
    """Return what was found as text."""
    return live_report.render(found) if isinstance(found, Live) else report.render(found)


def to_json(found: Comparison | Live) -> tuple[str, dict[str, Any]]:
    """Return what was found as JSON, behind the name of its schema."""
    if isinstance(found, Live):
        return "cadencec.bench-live/1", live_report.to_json(found)
    return "cadencec.bench/2", report.to_json(found)


def _check_plot(request: Request, path: str) -> None:
    if not request.live:
        raise UsageError("CAD9723", "`--plot` draws a live bench", expected="`--live`", got="no `--live`")
    for given in (request.plan, request.spec):
        if os.path.realpath(given) == os.path.realpath(path):
            hint = "choose another name for it"
            raise UsageError("CAD9724", "the plot would replace what is benched", at=path, hint=hint)
    check_writable(path)


def _check_live(plan: Plan, request: Request) -> None:
    if plan.target != "cpu":
        hint = "without `--live`, plans for CUDA are benched too"
        raise UsageError(
            "CAD9721", "only plans for the cpu can be benched live", expected="cpu", got=plan.target, hint=hint
        )
    cadence_s = plan.program.cadence_s
    if cadence_s is None or request.ahead / 1000 >= cadence_s:
        got = "none" if cadence_s is None else f"{float(cadence_s) * 1000:g} ms, and {request.ahead:g} ms ahead"
        raise UsageError(
            "CAD9722",
            "a live bench needs time for a unit",
            expected="a cadence in the spec, longer than what is ahead",
            got=got,
        )
