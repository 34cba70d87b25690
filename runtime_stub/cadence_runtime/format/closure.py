"""Closure: the transition table of a plan covers all that can happen, and every stage that then runs has its capture.

Run when a plan is written and when it is loaded. It is written the plain way and shares no code with the host step or
the timeline search, so that a mistake there cannot hide here. For each node, each external event and each choice it
works out (in `happening.py`) whether the event may happen, what it does and what follows, and holds the table to that:

    node 3 ──unit──> [encode (28, 0), denoise (50, 0..4), vocode (50, 0)] ──> counters 3, 1; lengths 350, 350, 8, ...
                     the row's captures, in order                             the row's target

Along the captures of a row it follows the form of every leaf, so a capture that was made for another length, stride or
alias is found. A region that some stage takes row by row has a leaf for each row.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Set

from cadence_runtime.errors import CadenceError, ErrorList, PlanError, raise_all
from cadence_runtime.format.choices import choices_number
from cadence_runtime.format.happening import (
    Budget,
    Call,
    Session,
    TooMuchWorkError,
    WrongProgramError,
    push,
    session_at,
    start,
)
from cadence_runtime.format.plan import INIT, RESET, Form, Leaf, Node, Plan, TensorForm, Transition
from cadence_runtime.format.tape import Literal
from cadence_runtime.host.program import Event, EventInput, Region, Stage
from cadence_runtime.host.resolve import check_references

MAX_CHOICES = 1_000_000
"""Choices of one event that a plan may offer."""
MAX_PUSHES = 2_000_000
"""Choices of all events at all nodes: what the check goes through, one by one."""
MAX_WORK = 500_000_000
"""Units of work in all; a second is some twenty million."""
MAX_ERRORS = 20
"""Errors after which nobody reads on."""

RowKey = tuple[int, int, int]
"""Source, event, and the number of its choices: small integers, whose hashes no plan can make equal."""


def check_closure(plan: Plan) -> None:
    """Raise `PlanError` CAD5301 to CAD5309, or an `ErrorList` of the first of them, unless the timeline is closed."""
    raise_all(itertools.islice(closure_errors(plan), MAX_ERRORS))


def closure_errors(plan: Plan) -> Iterator[PlanError]:
    """Yield what is wrong with the timeline of a plan. Wrong indices end the check, since nothing else can be read."""
    try:
        check_references(plan.program)
    except CadenceError as error:
        first = error.errors[0] if isinstance(error, ErrorList) else error
        yield _error("CAD5307", first.what, first.expected, first.got)
        return
    wrong = list(_bad_indices(plan))
    yield from wrong
    if wrong:
        return
    wrong = list(_too_many_pushes(plan))
    yield from wrong
    if wrong:
        return
    yield from _bad_start(plan)
    rowed = {name for stage in plan.program.stages for name in stage.indexed}
    for index, node in enumerate(plan.nodes):
        yield from _bad_forms(plan, index, node, rowed)
    rows: dict[RowKey, Transition] = {}
    strange = []
    for row in plan.transitions:
        key = _row_key(plan, row)
        if key is None:
            strange.append(row)
            continue
        if key in rows:
            yield _error("CAD5304", f"{_row(plan, row)} stands twice in the transition table", "once")
        rows[key] = row
    budget = Budget(plan.program, MAX_WORK)
    for index in range(len(plan.nodes)):
        try:
            yield from _bad_rows(plan, index, rows, budget)
        except TooMuchWorkError:
            yield _error(
                "CAD5309", "the events of the timeline go on for too long", f"at most {MAX_WORK} units of work"
            )
            return
        except PlanError as error:  # what such a program does elsewhere tells nobody more
            yield error
            return
    for row in (*rows.values(), *strange):
        yield _error("CAD5304", f"{_row(plan, row)} stands in the transition table", "none: it cannot happen there")


# What a plan may hold at all.


def _bad_indices(plan: Plan) -> Iterator[PlanError]:
    nodes, forms, captures = len(plan.nodes), len(plan.forms), len(plan.captures)
    if not nodes or not 0 <= plan.init < captures:
        yield _error("CAD5301", "no start", "a node and an init capture", f"{nodes} nodes, init {plan.init}")
    program = plan.program
    for i, node in enumerate(plan.nodes):
        parts = (len(node.configuration.counters), len(node.configuration.lengths), len(node.forms))
        wanted = (len(program.counters), len(program.regions), len(plan.leaves))
        if parts != wanted:
            yield _error("CAD5301", f"node {i} has other parts than its program", str(wanted), str(parts))
        if not all(0 <= form < forms for form in node.forms):
            yield _error("CAD5301", f"node {i} names a form that is not there", f"0 to {forms - 1}")
    for i, capture in enumerate(plan.captures):
        pairs = (*capture.key.state, *capture.writes)
        if not all(0 <= leaf < len(plan.leaves) and 0 <= form < forms for leaf, form in pairs):
            yield _error("CAD5301", f"capture {i} names a leaf or form that is not there")
    for i, row in enumerate(plan.transitions):
        inside = 0 <= row.source < nodes and 0 <= row.target < nodes and 0 <= row.event < len(program.events)
        if not inside or not all(0 <= capture < captures for capture in row.captures):
            yield _error("CAD5301", f"transition {i} names a node, event or capture that is not there")


def _too_many_pushes(plan: Plan) -> Iterator[PlanError]:
    counts = {event.name: _choice_count(event) for event in plan.program.events if not event.internal}
    for name, count in counts.items():
        if count > MAX_CHOICES:
            yield _error("CAD5309", f"event `{name}` has {count} choices", f"at most {MAX_CHOICES}")
            return
    pushes = len(plan.nodes) * sum(counts.values())
    if pushes > MAX_PUSHES:
        yield _error("CAD5309", f"the timeline offers {pushes} pushes", f"at most {MAX_PUSHES}")


def _bad_start(plan: Plan) -> Iterator[PlanError]:
    begin, node = start(plan.program), plan.nodes[0]
    if session_at(plan.program, node) != begin:
        yield _error("CAD5302", "node 0 is not the start", _shown(begin), _shown(session_at(plan.program, node)))
    init = plan.captures[plan.init]
    if init.key.stage != INIT or init.key.state:
        yield _error("CAD5302", "the init capture is not one", f"stage `{INIT}`, reading no leaf", init.key.stage)
    if dict(init.writes) != dict(enumerate(node.forms)):
        yield _error("CAD5302", "the init capture does not make the state of node 0", "its form for every leaf")


def _bad_forms(plan: Plan, index: int, node: Node, rowed: Set[str]) -> Iterator[PlanError]:
    """Hold the leaves of a node to its counters and to the lengths of its regions; the leaves of regions in `rowed` are
    their rows."""
    regions = {region.name: region for region in plan.program.regions}
    session = session_at(plan.program, node)
    for leaf, number in zip(plan.leaves, node.forms, strict=True):
        form = plan.forms[number]
        if leaf.owner in regions:
            good = _fits(form, regions[leaf.owner], session.lengths[leaf.owner], leaf.owner in rowed)
        else:
            counter = session.counters.get(leaf.owner)
            good = isinstance(form, Literal) and form.kind == "int" and form.text == str(counter)
        if not good:
            expected = _wanted(leaf, regions, session)
            yield _error("CAD5308", f"leaf `{leaf.path}` of node {index} has another form", expected, _form(form))


def _fits(form: Form, region: Region, length: int, is_row: bool) -> bool:
    if isinstance(form, Literal):
        return form.kind == "none" and length < 0
    sizes = tuple(length if size is None else size for size in region.shape)
    return length >= 0 and form.dtype == region.dtype and form.sizes == (sizes[1:] if is_row else sizes)


def _wanted(leaf: Leaf, regions: Mapping[str, Region], session: Session) -> str:
    if leaf.owner in regions:
        length = session.lengths[leaf.owner]
        return f"region `{leaf.owner}` at length {length}" if length >= 0 else f"region `{leaf.owner}` absent"
    return f"counter `{leaf.owner}` at {session.counters.get(leaf.owner)}"


# What must be there: one row for each push that may happen.


def _row_key(plan: Plan, row: Transition) -> RowKey | None:
    """Return by what a row is looked up; None for one that no push asks for."""
    event = plan.program.events[row.event]
    number = None if event.internal else choices_number(event, row.choices)
    return None if number is None else (row.source, row.event, number)


def _bad_rows(plan: Plan, index: int, rows: dict[RowKey, Transition], budget: Budget) -> Iterator[PlanError]:
    """Hold the rows of one node to what may happen there, and take them out of `rows`. Raises PlanError CAD5307 for a
    program that contradicts itself there."""
    for number, event in enumerate(plan.program.events):
        if event.internal:
            continue
        offered = itertools.product(*(range(choice.lower, choice.upper) for choice in event.choices))
        for choice, choices in enumerate(offered):
            try:
                end = push(plan.program, plan.nodes[index], event, choices, budget)
            except (WrongProgramError, CadenceError) as error:
                where = f"event `{event.name}` at node {index}"
                raise _error("CAD5307", f"{where} contradicts itself", got=str(error).partition("\n")[0]) from None
            row = rows.pop((index, number, choice), None)
            if end is None and row is not None:
                yield _error("CAD5304", f"{_row(plan, row)} stands in the transition table", "none: it is not enabled")
            elif end is not None and row is None:
                given = _given(event, choices)
                yield _error("CAD5303", f"node {index} has no row for event `{event.name}`{given}", _shown(end[0]))
            elif end is not None and row is not None:
                budget.spend(_row_cost(plan, row, end[1]))
                yield from _bad_row(plan, row, *end)


def _choice_count(event: Event) -> int:
    """Return how many values the choices of an event have together; beyond a few millions, some number above."""
    counts = [max(0, choice.upper - choice.lower) for choice in event.choices]
    found = 0 if 0 in counts else 1
    for count in counts:
        found *= count if found <= MAX_PUSHES else 1
    return found


def _row_cost(plan: Plan, row: Transition, calls: list[Call]) -> int:
    """Return what a row costs: the parts of two nodes, what its captures say, and what is looked up for each."""
    program = plan.program
    parts = len(plan.leaves) + len(program.counters) + len(program.regions)
    captures = [plan.captures[number] for number in row.captures]
    pairs = sum(len(each.key.state) + len(each.writes) + len(each.outputs) for each in captures)
    inputs = sum(len(call.event.inputs) for call in calls if call.event is not None)
    around = len(program.stages) + len(program.queues) + len(program.counters)
    return parts + pairs + inputs + len(calls) * around


def _bad_row(plan: Plan, row: Transition, end: Session, calls: list[Call]) -> Iterator[PlanError]:
    target = plan.nodes[row.target]
    reached = session_at(plan.program, target)
    if reached != end:
        yield _error("CAD5305", f"{_row(plan, row)} leads to the wrong node", _shown(end), _shown(reached))
        return
    if len(row.captures) != len(calls):
        expected = ", ".join(f"`{call.stage}`" for call in calls) or "none"
        yield _error("CAD5306", f"{_row(plan, row)} has {len(row.captures)} captures", expected)
        return
    forms = list(plan.nodes[row.source].forms)
    made: dict[str, Form] = {}
    env: Mapping[str, int] | None = None
    for number, call in zip(row.captures, calls, strict=True):
        if call.env is not env:  # another event: what the one before it made is gone
            made, env = {}, call.env
        problem = _bad_capture(plan, number, call, forms, made)
        if problem:
            yield _error("CAD5306", f"capture {number} of {_row(plan, row)} is another stage's or key's", *problem)
            return
        for leaf, form in plan.captures[number].writes:
            forms[leaf] = form
    if tuple(forms) != target.forms:
        leaf = next(i for i, form in enumerate(forms) if form != target.forms[i])
        what = f"{_row(plan, row)} leaves leaf `{plan.leaves[leaf].path}` in another form than its target has"
        yield _error("CAD5305", what, _form(plan.forms[forms[leaf]]), _form(plan.forms[target.forms[leaf]]))


def _bad_capture(
    plan: Plan, number: int, call: Call, forms: list[int], made: dict[str, Form]
) -> tuple[str, str] | None:
    """Return (expected, got) where a capture is not what must run here; add what it makes to `made`."""
    key = plan.captures[number].key
    if call.stage == RESET:
        good = key.stage in {RESET, INIT}
        return _stale(plan, number, forms) if good else ("the model's reset", f"stage `{key.stage}`")
    args = call.args if call.index is None else (*call.args, call.index)
    if (key.stage, key.args) != (call.stage, args):
        return f"`{call.stage}` {args}", f"`{key.stage}` {key.args}"
    stage = next(stage for stage in plan.program.stages if stage.name == call.stage)
    queues = {queue.name for queue in plan.program.queues}
    if len(key.inputs) != len(stage.inputs):
        return f"{len(stage.inputs)} inputs", f"{len(key.inputs)}"
    given = {item.name: item for item in (call.event.inputs if call.event else ())}
    for entry, form in zip(stage.inputs, key.inputs, strict=True):
        item, name = given.get(entry.name), entry.name
        if isinstance(form, TensorForm) and form.dtype != entry.dtype:
            return f"input `{name}` of {entry.dtype or 'no dtype'}", _form(form)
        if item is not None and not _is_input(form, item, call.env):
            return f"input `{name}` {_input(item, call.env)}", _form(form)
        if item is None and (name not in made or name in queues):
            return f"input `{name}` from the event or an earlier stage", "none"
        if item is None and not _same_bytes(form, made[name]):
            return f"input `{name}` {_form(made[name])}", _form(form)
    if len(stage.outputs) != len(plan.captures[number].outputs):
        return f"{len(stage.outputs)} outputs", f"{len(plan.captures[number].outputs)}"
    made.update(zip(stage.outputs, plan.captures[number].outputs, strict=True))
    return _stale(plan, number, forms) or _foreign(plan, number, stage) or _other_row(plan, number, stage, call.index)


def _stale(plan: Plan, number: int, forms: list[int]) -> tuple[str, str] | None:
    """Return what differs between the forms that a capture was made for and those that are there."""
    for leaf, form in plan.captures[number].key.state:
        if forms[leaf] != form:
            path = plan.leaves[leaf].path
            return f"leaf `{path}` as {_form(plan.forms[forms[leaf]])}", f"made for {_form(plan.forms[form])}"
    return None


def _foreign(plan: Plan, number: int, stage: Stage) -> tuple[str, str] | None:
    """Return a leaf that a capture writes, though it belongs to no region of the stage's `writes`."""
    allowed = {*stage.writes, *(counter.name for counter in plan.program.counters if counter.leaf)}
    for leaf, _ in plan.captures[number].writes:
        if plan.leaves[leaf].owner not in allowed:
            return f"writes to {', '.join(stage.writes) or 'no region'}", f"leaf `{plan.leaves[leaf].path}`"
    return None


def _other_row(plan: Plan, number: int, stage: Stage, index: int | None) -> tuple[str, str] | None:
    """Return a row that a capture reads or writes, though it belongs to another index."""
    capture, indexed = plan.captures[number], set(stage.indexed)
    for leaf, _ in (*capture.key.state, *capture.writes):
        path = plan.leaves[leaf].path
        if plan.leaves[leaf].owner in indexed and not path.endswith(f"[{index}]"):
            return f"rows `[{index}]`", f"leaf `{path}`"
    return None


def _same_bytes(form: Form, made: Form) -> bool:
    """Return whether an input has the form of the output that it is, wherever the two lie."""
    if isinstance(form, Literal) or isinstance(made, Literal):
        return form == made
    return (form.dtype, form.sizes, form.strides) == (made.dtype, made.sizes, made.strides)


def _is_input(form: Form, item: EventInput, env: Mapping[str, int]) -> bool:
    if item.literal is not None:
        kind = type(item.literal).__name__
        same = isinstance(form, Literal) and form.kind == kind
        return same and isinstance(form, Literal) and form.text.lower() == str(item.literal).lower()
    return isinstance(form, TensorForm) and form.sizes == tuple(size.evaluate(env) for size in item.shape)


# Messages.


def _error(code: str, what: str, expected: str | None = None, got: str | None = None) -> PlanError:
    hint = "compile the plan again; if it was not changed on the way, this is a fault of the compiler"
    return PlanError(code, what, expected=expected, got=got, hint=hint)


def _given(event: Event, choices: tuple[int, ...]) -> str:
    return "".join(f" {choice.name}={value}" for choice, value in zip(event.choices, choices, strict=False))


def _row(plan: Plan, row: Transition) -> str:
    event = plan.program.events[row.event]
    return f"event `{event.name}`{_given(event, row.choices)} at node {row.source}"


def _shown(session: Session) -> str:
    parts = [f"{name} {value}" for name, value in (*session.counters.items(), *session.lengths.items())]
    return ", ".join([*parts, *([f"{session.elapsed} used"] if session.elapsed else [])]) or "nothing"


def _form(form: Form) -> str:
    if isinstance(form, Literal):
        return form.text or form.kind
    return f"{form.dtype}{list(form.sizes)} strides {list(form.strides)}"


def _input(item: EventInput, env: Mapping[str, int]) -> str:
    if item.literal is not None:
        return json.dumps(item.literal)
    return str([size.evaluate(env) for size in item.shape])
