"""Measures a plan against stock: every side in a process of its own, in turns, and their outputs bit for bit.

    replay    [first output]   [warm-up, memory]                                            session            session
    released                                     [first output]   [warm-up, memory]                 session
    ...                                                                                     |-- round --|      |-- ...

While one side works the others wait, so that what else the machine does falls on all alike.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from cadence_runtime.format.plan import Plan
from cadencec import __version__
from cadencec.bench.agenda import pushes_of, rows, steady, until_first_output
from cadencec.bench.child import FIRST, TALK
from cadencec.bench.equal import first_difference
from cadencec.bench.found import Comparison, Measured, Memory, Name, PlanFacts, Steady
from cadencec.bench.process import Process
from cadencec.bench.request import Request
from cadencec.bench.rows import read_rows, write_rows
from cadencec.bench.side import REPLAY, STOCK, Side
from cadencec.inspect import inspect
from cadencec.plan.turns import Timeline
from cadencec.spec.spec import Spec
from cadencec.trace.numerics import shown

SECONDS = 60.0

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Running:
    """A side that is measured: its process, and what was seen so far. `differing` is the first round whose outputs were
    not those of the warm-up."""

    name: Name
    process: Process
    first_output_s: tuple[float, ...]
    digest: str
    memory: Memory
    open_s: list[float] = field(default_factory=list)
    times_s: list[tuple[float, ...]] = field(default_factory=list)
    differing: int | None = None

    def run(self, number: int) -> None:
        """Run the session of a round, from 1."""
        found = self.process.ask("session")
        self.open_s.append(found["open_s"])
        self.times_s.append(tuple(found["times_s"]))
        if found["digest"] != self.digest and self.differing is None:
            self.differing = number

    def measured(self, places: Mapping[str, Sequence[int]]) -> Measured:
        """Return what was measured; `places` has the numbers of the steady pushes by event."""
        found = {event: Steady.of([[times[i] for i in at] for times in self.times_s]) for event, at in places.items()}
        sessions = tuple(map(sum, self.times_s))
        return Measured(self.name, found, sessions, tuple(self.open_s), self.first_output_s, self.memory)


class Begin:
    """Begins one side after the other, and holds their processes until `held` is closed."""

    def __init__(self, request: Request, held: ExitStack, progress: Progress) -> None:
        self._starts, self._held, self._progress = request.starts, held, progress

    def __call__(self, side: Side, name: Name | None = None) -> tuple[Running, dict[str, object]]:
        """See how long fresh processes take to the first output; then start one that stays, and let it run a session
        that is written down. Without a name it is that of the side's variant. Also return what the process said of
        itself."""
        self._progress(f"start {name or side.kind}", 0, 1)
        times_s = []
        for _ in range(self._starts):
            with Process(side.started_anew()) as process:
                times_s.append(process.ask("first")["first_output_s"])
        process = self._held.enter_context(Process(side))
        told = process.ask("begin")
        name = name or Name(told["variants"][side.variant])
        self._progress(f"warm up {name}", 0, 1)
        digest = process.ask("save")["digest"]
        return Running(name, process, tuple(times_s), digest, Memory(**process.ask("memory"))), told


def compare(request: Request, plan: Plan, spec: Spec, progress: Progress) -> Comparison:
    """Measure a plan and its stock model. Raises what either side raises, and DeviceError CAD8030 for a process that
    ends by itself."""
    timeline = Timeline(plan)
    pushes = pushes_of(timeline, request.seconds or SECONDS, request.turns, request.seed)
    with TemporaryDirectory() as folder:
        first = pushes[: until_first_output(timeline, pushes)]
        for name, own in ((TALK, pushes), (FIRST, first)):
            write_rows(Path(folder, name), rows(plan, own, request.seed))
        replay = _side(request, plan, folder)
        stock = replace(replay, kind=STOCK, numerics=plan.provenance.numerics)
        with ExitStack() as held:
            begin = Begin(request, held, progress)
            replayed, machine = begin(replay, Name("replay"))
            released, told = begin(stock)
            sides, variants = [replayed, released], told["variants"]
            assert isinstance(variants, list)  # noqa: S101 - by the protocol
            sides += [begin(replace(stock, variant=number))[0] for number in range(1, len(variants))]
            loop, plainest = str(told["loop"]), sides[-1]
            events = [plan.program.events[push.transition.event].name for push in pushes]
            expected = read_rows(plainest.process.side.outputs)
            difference = first_difference(read_rows(replay.outputs), expected, events, loop)
            if spec.numerics:
                sides.append(begin(replace(stock, numerics=None), Name(released.name.variant, False))[0])
            for number in range(1, request.rounds + 1):
                progress("rounds", number - 1, request.rounds)
                for side in sides:
                    side.run(number)
        resident_bytes = _resident_bytes(replace(replay, warm=True), progress)
    difference = difference or _unlike_itself((replayed, plainest))
    going = steady(timeline)
    places: dict[str, list[int]] = {}
    for number, push in enumerate(pushes):
        if push.transition in going:
            places.setdefault(events[number], []).append(number)
    captures = {event: pushes[at[-1]].transition.captures for event, at in places.items()}
    return Comparison(
        model=plan.provenance.model,
        random_weights=plan.provenance.random_weights,
        target=plan.target,
        device=str(machine["device"]),
        versions=_versions(plan, machine),
        date=datetime.now(UTC).date().isoformat(),
        numerics=shown(spec.numerics),
        loop=loop,
        session_s=float(sum(map(timeline.seconds, pushes))),
        turns=sum(map(timeline.resets, pushes)),
        pushes=len(pushes),
        seed=request.seed,
        plan=PlanFacts.of(inspect(request.plan), captures, resident_bytes),
        replay=replayed.measured(places),
        stock=tuple(side.measured(places) for side in sides[1:]),
        outputs=len(expected),
        difference=difference,
    )


def _side(request: Request, plan: Plan, folder: str) -> Side:
    return Side(
        kind=REPLAY,
        target=plan.target,
        plan=request.plan,
        spec=request.spec,
        folder=folder,
        seed=request.seed,
        weights=request.weights,
        policy=request.policy,
        overrides=tuple((request.overrides or {}).items()),
        stages=request.stages,
    )


def _resident_bytes(side: Side, progress: Progress) -> int | None:
    """Return what a device holds of a plan with everything that it may ever need, when the other sides are gone."""
    if side.target == "cpu":
        return None
    progress("every key", 0, 1)
    with Process(side) as process:
        process.ask("begin")
        found: int | None = process.ask("memory")["device_bytes"]
    return found


def _unlike_itself(sides: Sequence[Running]) -> str | None:
    for side in sides:
        if side.differing is not None:
            return f"{side.name} had other bits in round {side.differing} than in the warm-up"
    return None


def _versions(plan: Plan, machine: Mapping[str, object]) -> dict[str, str]:
    found = {"cadencec": __version__, "python": platform.python_version()}
    found |= {name: version for name, version in plan.provenance.environment if name != "python"}
    return found | ({"driver": f"CUDA {machine['driver']}"} if "driver" in machine else {})
