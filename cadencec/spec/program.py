"""Document -> Program: params get their values, every name is resolved, and numbers that must agree are compared."""

from cadence_runtime.errors import SpecError
from cadence_runtime.host.program import Clock, Counter, Horizon, Program, Queue
from cadencec.spec.events import build_events
from cadencec.spec.names import Names, declare_names
from cadencec.spec.regions import build_regions
from cadencec.spec.report import Report
from cadencec.spec.schema import NUMERICS, Document, QueueDoc
from cadencec.spec.stages import build_stages
from cadencec.spec.values import one_of, shown, suggest


def build_program(document: Document, report: Report) -> Program:
    """Return the program of a document. What is wrong is reported; the program is then not to be used."""
    names = declare_names(document, report)
    _check_numerics(document, report)
    counters = _counters(names)
    regions = build_regions(names)
    stages = build_stages(regions, names)
    queues = _queues({counter.name: counter for counter in counters}, names)
    return Program(
        params=tuple(names.constants.items()),
        clocks=tuple(Clock(name, rate) for name, rate in document.clocks.items()),
        counters=counters,
        queues=queues,
        regions=tuple(regions.values()),
        stages=tuple(stages.values()),
        events=build_events(stages, {queue.name: queue for queue in queues}, names),
        horizon=_horizon(document, report),
        cadence_s=document.cadence,
    )


def _check_numerics(document: Document, report: Report) -> None:
    for name, value in document.numerics.items():
        location = ("numerics", name)
        if name not in NUMERICS:
            hint = suggest(name, NUMERICS)
            error = SpecError("CAD1301", f"unknown numeric switch `{name}`", expected=one_of(NUMERICS), hint=hint)
            report.add(error, location, key=True)
            continue
        allowed = NUMERICS[name]
        is_count = not allowed and type(value) is int and value > 0
        if not is_count and not any(type(value) is type(known) and value == known for known in allowed):
            expected = one_of(str(known).lower() for known in allowed) or "a count above 0"
            what = f"`{name}` cannot be {shown(value)}"
            report.add(SpecError("CAD1206", what, expected=expected), location)


def _counters(names: Names) -> tuple[Counter, ...]:
    counters = []
    for name, declared in names.document.counters.items():
        start = names.evaluate(declared.start, ("counters", name, "start"))
        if start is None:
            names.failed.add(name)
        else:
            counters.append(Counter(name, start, declared.leaf or ""))
    return tuple(counters)


def _horizon(document: Document, report: Report) -> Horizon | None:
    in_seconds = document.horizon is not None and document.horizon.unit == "seconds"
    if in_seconds and not document.clocks and not report.has_unreadable("clocks"):
        hint = "declare the clock that events advance, or count events: `horizon: 6 events`"
        report.add(SpecError("CAD1311", "a horizon in seconds without a clock", hint=hint), ("horizon",))
    return document.horizon


def _queues(counters: dict[str, Counter], names: Names) -> tuple[Queue, ...]:
    queues = [_queue(name, declared, counters, names) for name, declared in names.document.queues.items()]
    held: dict[str, str] = {}
    for queue in filter(None, queues):
        first = held.setdefault(queue.counter, queue.name)
        if first != queue.name:
            what = f"counter `{queue.counter}` counts the rows of two queues, `{first}` and `{queue.name}`"
            error = SpecError("CAD1309", what, expected="a counter for each queue")
            names.report.add(error, ("queues", queue.name, "counter"))
    return tuple(filter(None, queues))


def _queue(name: str, declared: QueueDoc, counters: dict[str, Counter], names: Names) -> Queue | None:
    location, report = ("queues", name), names.report
    inputs = {item: body for stage in names.document.stages.values() for item, body in stage.inputs.items()}
    if name not in inputs:
        if not report.has_unreadable("stages"):
            expected = one_of(inputs)
            what = f"queue `{name}` is the input of no stage"
            report.add(SpecError("CAD1309", what, expected=expected, hint=suggest(name, inputs)), location, key=True)
        return None
    if not names.resolve("counters", "counter", declared.counter, (*location, "counter")):
        return None
    dtype = declared.dtype or inputs[name].dtype or "float32"
    if dtype != (inputs[name].dtype or dtype):
        what = f"queue `{name}` and the stage input of its name differ in dtype"
        error = SpecError("CAD1309", what, expected=f"`{inputs[name].dtype}`", got=f"`{dtype}`")
        report.add(error, (*location, "dtype"))
    counter = counters.get(declared.counter)
    if counter and counter.start != len(declared.start):
        what = (
            f"queue `{name}` starts with {len(declared.start)} rows, its counter `{counter.name}` with {counter.start}"
        )
        hint = f"list {counter.start} rows in `start`, or start the counter at {len(declared.start)}"
        report.add(SpecError("CAD1309", what, expected="the same number", hint=hint), location, key=True)
    if declared.axis < 0:
        error = SpecError("CAD1309", f"axis {declared.axis} of queue `{name}`", expected="0 or more")
        report.add(error, (*location, "axis"))
    return Queue(name, declared.counter, dtype, declared.axis, tuple(declared.start))
