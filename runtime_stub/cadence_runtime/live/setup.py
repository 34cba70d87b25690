"""What an executor works out of a plan, once."""

import os
from collections.abc import Mapping
from contextlib import ExitStack

from cadence_runtime.session import LoadedPlan, check_lanes
from cadence_runtime.times import Times

HAND_OVER_S = 0.0005
"""What it takes to hand a push to another thread and its outputs back, twice over: for a shorter one the way is longer
than the work. Measured: 0.24 ms a push of Silero VAD on two cores."""


def turn_event(plan: LoadedPlan) -> str | None:
    """Return the first event that resets a session and can always be pushed as it is; None without one."""
    events = (e for e in plan.plan.program.events if e.reset and not (e.internal or e.when or e.choices or e.inputs))
    return next((event.name for event in events), None)


def lanes_for(plan: LoadedPlan, wanted: int | None, times: Times | None) -> int:
    """Return how many threads are to do pushes; 0 for the loop's own. Raises UsageError CAD9703 for fewer."""
    if wanted is not None:
        check_lanes(wanted, 0)
        return wanted
    if plan.spare_lanes:
        return 1 + plan.spare_lanes
    if plan.plan.target != "cpu":
        return 1
    if times is not None and 0 < times.slowest_s < HAND_OVER_S:
        return 0
    return max(1, len(os.sched_getaffinity(0)) // int(dict(plan.plan.provenance.numerics).get("threads", "1")))


def lanes_of(plan: LoadedPlan, count: int) -> list[LoadedPlan]:
    """Return the plan and further lanes of it. Raises DeviceError where there is no room; then no other is left."""
    with ExitStack() as undo:
        lanes = [plan, *(undo.enter_context(plan.lane()) for _ in range(count - 1))]
        undo.pop_all()
    return lanes


def first_estimates(plan: LoadedPlan, times: Times | None) -> dict[str, float]:
    """Return for each external event the slowest of its keys that has a time, or 0."""
    events = plan.plan.program.events
    found = {event.name: 0.0 for event in events if not event.internal}
    for transition in plan.plan.transitions if times is not None else ():
        name = events[transition.event].name
        found[name] = max(found[name], times.pushes.get(transition.captures, 0.0) if times else 0.0)
    return found


def shapes_of(inputs: Mapping[str, object]) -> str:
    """Return the sizes of what is pushed as one word, `1x512` or `1x25,1x4`."""
    sizes = (getattr(value, "shape", None) for value in inputs.values())
    return ",".join("x".join(map(str, each)) for each in sizes if each is not None)
