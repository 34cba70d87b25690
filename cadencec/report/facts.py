"""What a report shows of a plan, before anything is drawn."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cadence_runtime.format.cuda import KernelNode
from cadence_runtime.format.outline import Outline, read_whole
from cadence_runtime.format.plan import Plan
from cadence_runtime.zstd import decompress
from cadencec.diff.plan_facts import key_names
from cadencec.inspect import Inspection, inspect_plan
from cadencec.report.text import seconds_text
from cadencec.timeline import Timeline, build
from cadencec.timeline.demand import region_bytes

FAMILIES = (
    ("matrix product", r"gemm|gemv|cublas|cutlass|::(add|ba|b)?mm\b|::linear|splitk|wgmma|xmma"),
    ("convolution", r"conv|cudnn|winograd|implicit|dgrad|nchw|nhwc"),
    ("attention", r"attention|flash|fmha|softmax"),
    ("normalisation", r"norm"),
    ("recurrence", r"lstm|gru|rnn"),
    ("Fourier transform", r"fft|stft"),
    ("copy and concatenation", r"catarray|memcpy|copy|::cat\b|::stack|clone|index|gather|scatter|embedding"),
    ("fill", r"memset|fill|zero|::full|arange|::ones"),
    ("random draw", r"philox|random|distribution|normal_|uniform_|randn|::rand"),
    ("reduction", r"reduce|::sum|::mean|::max|::min|::amax|cumsum|scan"),
    ("view", r"::(view|slice|transpose|t|permute|unsqueeze|squeeze|expand|select|split|unbind|as_strided|reshape)\b"),
    ("element by element", r"elementwise|vectorized|unrolled|aten::"),
)  # fmt: skip
"""Families of kernels and ops: the first pattern that is found in a name, small letters, decides."""


@dataclass(frozen=True, slots=True)
class KeyLine:
    """A capture: what it depends on, what it launches, and the scratch it needs."""

    name: str
    stage: str
    launches: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A push on the common path: the event, when it has happened (`3 s`, or `push 3` where the spec has no cadence),
    and the bytes of each region then."""

    event: str
    when: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Life:
    """A buffer of scratch: where it lies and while which ops it lives (half-open)."""

    storage: int
    offset: int
    size_bytes: int
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """`moments` are the pushes of the common path, the start first; from `round_at` on they repeat for ever (None for a
    session that ends). `lives` are the buffers of the capture `tallest`, which needs most scratch (of a CPU plan).
    `covered` is how many pushes of the timeline, worked out anew from the program, have captures in the plan.
    `stock_bytes` has what the released code allocates for a region, where the spec says it."""

    plan: Plan
    inspection: Inspection
    timeline: Timeline
    covered: int
    keys: tuple[KeyLine, ...]
    families: tuple[tuple[str, int], ...]
    moments: tuple[Moment, ...]
    round_at: int | None
    tallest: str
    lives: tuple[Life, ...]
    stock_bytes: Mapping[str, int]


def report_facts(path: str, stock_bytes: Mapping[str, int]) -> ReportFacts:
    """Read a plan file for a report. Raises UsageError CAD92xx and PlanError CAD5xxx."""
    outline = read_whole(path, decompress=decompress)
    plan, names = outline.plan, key_names(outline.plan)
    timeline = build(plan.program)
    moments, round_at = _moments(timeline)
    tallest = max(range(len(plan.captures)), key=lambda number: _scratch(plan, number))
    return ReportFacts(
        plan=plan,
        inspection=_inspected(outline),
        timeline=timeline,
        covered=_covered(plan, timeline),
        keys=tuple(_keys(plan, names)),
        families=tuple(sorted(_families(plan).items(), key=lambda row: (-row[1], row[0]))),
        moments=moments,
        round_at=round_at,
        tallest=names[tallest],
        lives=tuple(_lives(plan, tallest)),
        stock_bytes=stock_bytes,
    )


def _inspected(outline: Outline) -> Inspection:
    return inspect_plan(outline, "")


def _covered(plan: Plan, timeline: Timeline) -> int:
    pushes = {(timeline.configurations[push.source], push.event, push.choices) for push in timeline.transitions}
    rows = {(plan.nodes[row.source].configuration, row.event, row.choices) for row in plan.transitions if row.captures}
    return len(pushes & rows)


def family(name: str) -> str:
    """Return the family of a kernel or an op by its name."""
    small = name.lower()
    return next((title for title, pattern in FAMILIES if re.search(pattern, small)), "other")


def _launched(plan: Plan) -> Iterator[list[str]]:
    """Yield what each capture launches, by name."""
    if plan.cuda is None:
        yield from ([op.name for op in plan.tapes[capture.tape].ops] for capture in plan.captures)
        return
    for number in range(len(plan.captures)):
        kernels, graph = plan.cuda.kernels, plan.cuda.graph_of(number)
        yield [
            kernels[node.kernel].name if isinstance(node, KernelNode) else type(node).__name__.removesuffix("Node")
            for node in graph.nodes
        ]


def _families(plan: Plan) -> Counter[str]:
    names: Counter[str] = Counter()
    for launched in _launched(plan):
        names.update(launched)
    found: Counter[str] = Counter()
    for name, count in names.items():
        found[family(name)] += count
    return found


def _keys(plan: Plan, names: list[str]) -> Iterator[KeyLine]:
    for name, capture, launched in zip(names, plan.captures, _launched(plan), strict=True):
        yield KeyLine(name, capture.key.stage, len(launched))


def _moments(timeline: Timeline) -> tuple[tuple[Moment, ...], int | None]:
    program, cycle = timeline.program, timeline.cycle
    start = timeline.rest[0]
    found = [Moment("start", "start", _sizes(timeline, start))]
    way = (*cycle.entry, *cycle.transitions, *cycle.transitions[:1]) if cycle else _longest(timeline)
    cadence = program.cadence_s
    for number, index in enumerate(way, 1):
        taken = timeline.transitions[index]
        when = seconds_text(number * cadence) if cadence else f"push {number}"
        name = program.events[taken.event].name
        if taken.choices:
            name += f" {', '.join(map(str, taken.choices))}"
        found.append(Moment(name, when, _sizes(timeline, taken.target)))
    return tuple(found), len(cycle.entry) if cycle else None


def _longest(timeline: Timeline) -> tuple[int, ...]:
    """Return the pushes from the start that never go back: each to a configuration not met before."""
    way: list[int] = []
    seen, at = {timeline.rest[0]}, timeline.rest[0]
    while True:
        onward = (i for i, t in enumerate(timeline.transitions) if t.source == at and t.target not in seen)
        index = next(onward, None)
        if index is None:
            return tuple(way)
        way.append(index)
        at = timeline.transitions[index].target
        seen.add(at)


def _sizes(timeline: Timeline, configuration: int) -> tuple[int, ...]:
    lengths = timeline.configurations[configuration].lengths
    regions = timeline.program.regions
    return tuple(region_bytes(region, length) for region, length in zip(regions, lengths, strict=True))


def _scratch(plan: Plan, number: int) -> int:
    capture = plan.captures[number]
    storages = plan.tapes[capture.tape].storages
    return max((offset + storages[index].size_bytes for index, offset in capture.scratch), default=0)


def _lives(plan: Plan, number: int) -> Iterator[Life]:
    capture = plan.captures[number]
    tape, lives = plan.tapes[capture.tape], dict[int, tuple[int, int]]()
    for position, op in enumerate(tape.ops):
        for index in (*op.reads, *op.writes):
            lives[index] = (lives.get(index, (position, 0))[0], position + 1)
    for index, offset in capture.scratch:
        lower, upper = lives.get(index, (0, len(tape.ops)))
        yield Life(index, offset, tape.storages[index].size_bytes, lower, upper)
