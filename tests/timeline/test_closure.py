"""The closure checker passes closed tables, and catches every change to one."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cadence_runtime.errors import ErrorList, PlanError, TimelineError
from cadence_runtime.format.closure import check_closure, closure_errors
from cadence_runtime.format.plan import Plan, TensorForm
from cadence_runtime.host.program import Choice, Configuration, Program
from tests.host.programs import event, expression, growing_cache, minicpm, program
from tests.timeline.plans import toy_plan
from tests.timeline.strategies import programs

SLOW = settings(max_examples=60, suppress_health_check=list(HealthCheck))
HINT = "compile the plan again; if it was not changed on the way, this is a fault of the compiler"


def codes(plan: Plan) -> list[str]:
    return [error.code for error in closure_errors(plan)]


def closed(made: Program) -> Plan:
    try:
        return toy_plan(made)
    except TimelineError:
        assume(False)
        raise


@SLOW
@given(programs())
def test_what_the_search_finds_is_closed(made: Program) -> None:
    assert list(closure_errors(closed(made))) == []


def test_the_live_rule_is_closed() -> None:
    check_closure(toy_plan(minicpm()))


# Mutations. Each changes one thing that a session would meet.

Mutation = Callable[[Plan, random.Random], Plan | None]


def drop_row(plan: Plan, rng: random.Random) -> Plan | None:
    at = rng.randrange(len(plan.transitions))
    return replace(plan, transitions=plan.transitions[:at] + plan.transitions[at + 1 :])


def repeat_row(plan: Plan, rng: random.Random) -> Plan | None:
    return replace(plan, transitions=(*plan.transitions, rng.choice(plan.transitions)))


def change_row(plan: Plan, rng: random.Random, **changes: object) -> Plan:
    at = rng.randrange(len(plan.transitions))
    rows = list(plan.transitions)
    rows[at] = replace(rows[at], **changes)  # type: ignore[arg-type]
    return replace(plan, transitions=tuple(rows))


def other_target(plan: Plan, rng: random.Random) -> Plan | None:
    at = rng.randrange(len(plan.transitions))
    others = [i for i in range(len(plan.nodes)) if i != plan.transitions[at].target]
    if not others:
        return None
    rows = list(plan.transitions)
    rows[at] = replace(rows[at], target=rng.choice(others))
    return replace(plan, transitions=tuple(rows))


def other_choices(plan: Plan, rng: random.Random) -> Plan | None:
    return change_row(plan, rng, choices=(99,))


def drop_capture(plan: Plan, rng: random.Random) -> Plan | None:
    at = rng.choice([i for i, row in enumerate(plan.transitions) if row.captures] or [-1])
    if at < 0:
        return None
    rows = list(plan.transitions)
    rows[at] = replace(rows[at], captures=rows[at].captures[1:])
    return replace(plan, transitions=tuple(rows))


def other_capture(plan: Plan, rng: random.Random) -> Plan | None:
    """Another stage's, or one made for other args or forms."""
    at = rng.choice([i for i, row in enumerate(plan.transitions) if row.captures] or [-1])
    if at < 0:
        return None
    rows = list(plan.transitions)
    captures = list(rows[at].captures)
    spot = rng.randrange(len(captures))
    key = plan.captures[captures[spot]].key
    others = [
        i
        for i, capture in enumerate(plan.captures)
        if (capture.key.stage, capture.key.args) != (key.stage, key.args)
        or (
            capture.key.state != key.state
            and {leaf for leaf, _ in key.state} <= {leaf for leaf, _ in capture.key.state}
        )
    ]
    others = [i for i in others if {plan.captures[i].key.stage, key.stage} != {"init", "reset"}]
    if not others:
        return None
    captures[spot] = rng.choice(others)
    rows[at] = replace(rows[at], captures=tuple(captures))
    return replace(plan, transitions=tuple(rows))


def other_counter(plan: Plan, rng: random.Random) -> Plan | None:
    at = rng.randrange(len(plan.nodes))
    nodes = list(plan.nodes)
    before = nodes[at].configuration
    counters = list(before.counters)
    counters[rng.randrange(len(counters))] += 1
    nodes[at] = replace(nodes[at], configuration=replace(before, counters=tuple(counters)))
    return replace(plan, nodes=tuple(nodes)) if reachable(plan, at) else None


def other_length(plan: Plan, rng: random.Random) -> Plan | None:
    at = rng.randrange(len(plan.nodes))
    nodes = list(plan.nodes)
    before = nodes[at].configuration
    lengths = list(before.lengths)
    lengths[rng.randrange(len(lengths))] += 1
    nodes[at] = replace(nodes[at], configuration=replace(before, lengths=tuple(lengths)))
    return replace(plan, nodes=tuple(nodes))


def reachable(plan: Plan, node: int) -> bool:
    return node == 0 or any(row.target == node for row in plan.transitions)


MUTATIONS: list[Mutation] = [
    drop_row,
    repeat_row,
    other_target,
    other_choices,
    drop_capture,
    other_capture,
    other_counter,
    other_length,
]


@SLOW
@given(programs(), st.sampled_from(MUTATIONS), st.randoms(use_true_random=False))
def test_every_change_is_caught(made: Program, mutation: Mutation, rng: random.Random) -> None:
    plan = closed(made)
    assume(plan.transitions)
    changed = mutation(plan, rng)
    assume(changed is not None and changed != plan)
    assert changed is not None
    assert codes(changed) != []


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_every_change_to_the_live_rule_is_caught(mutation: Mutation) -> None:
    plan = toy_plan(minicpm())
    changed = mutation(plan, random.Random(7))  # noqa: S311
    assert changed is not None and codes(changed) != []


# Messages.


def message(plan: Plan) -> str:
    with pytest.raises(PlanError) as caught:
        check_closure(plan)
    return str(caught.value)


@pytest.fixture
def plan() -> Plan:
    return toy_plan(growing_cache(2))


def test_index_that_is_not_there(plan: Plan) -> None:
    rows = (replace(plan.transitions[0], captures=(99,)), *plan.transitions[1:])
    assert message(replace(plan, transitions=rows)) == (
        f"CAD5301: transition 0 names a node, event or capture that is not there\n  hint:     {HINT}"
    )


def test_other_start(plan: Plan) -> None:
    nodes = (replace(plan.nodes[0], configuration=plan.nodes[1].configuration), *plan.nodes[1:])
    first = next(iter(closure_errors(replace(plan, nodes=nodes))))
    assert str(first) == (
        f"CAD5302: node 0 is not the start\n  expected: kv 0\n  got:      kv 1, 1 used\n  hint:     {HINT}"
    )


def test_missing_row(plan: Plan) -> None:
    assert message(replace(plan, transitions=plan.transitions[1:])) == (
        f"CAD5303: node 0 has no row for event `step`\n  expected: kv 1, 1 used\n  hint:     {HINT}"
    )


def test_row_too_many(plan: Plan) -> None:
    extra = replace(plan.transitions[0], source=2)
    assert message(replace(plan, transitions=(*plan.transitions, extra))) == (
        "CAD5304: event `step` at node 2 stands in the transition table\n"
        f"  expected: none: it is not enabled\n  hint:     {HINT}"
    )


def test_wrong_target(plan: Plan) -> None:
    rows = (replace(plan.transitions[0], target=2), *plan.transitions[1:])
    assert message(replace(plan, transitions=rows)) == (
        "CAD5305: event `step` at node 0 leads to the wrong node\n"
        f"  expected: kv 1, 1 used\n  got:      kv 2, 2 used\n  hint:     {HINT}"
    )


def test_capture_of_another_length(plan: Plan) -> None:
    first, second = (row for row in plan.transitions if row.event == 0)
    rows = [replace(row, captures=second.captures) if row == first else row for row in plan.transitions]
    number = second.captures[0]
    assert message(replace(plan, transitions=tuple(rows))) == (
        f"CAD5306: capture {number} of event `step` at node 0 is another stage's or key's\n"
        "  expected: leaf `kv` as float32[1, 0, 4] strides []\n"
        f"  got:      made for float32[1, 1, 4] strides []\n  hint:     {HINT}"
    )


def test_program_that_contradicts_itself() -> None:
    made = program([event("go", do={"c": "1"}), event("turn", when="c < 9", reset=True)], counters={"c": 0})
    bad = replace(made, events=(replace(made.events[0], effects=(("c", expression("1 // c")),)), made.events[1]))
    first = next(iter(closure_errors(replace(toy_plan(made), program=bad))))
    what, got = "event `go` at node 0 contradicts itself", "CAD1405: `//` divides by zero"
    assert str(first) == f"CAD5307: {what}\n  got:      {got}\n  hint:     {HINT}"


def test_leaf_of_another_form(plan: Plan) -> None:
    form = plan.nodes[1].forms[0]
    old = plan.forms[form]
    assert isinstance(old, TensorForm)
    forms = tuple(replace(old, dtype="float16") if i == form else each for i, each in enumerate(plan.forms))
    assert message(replace(plan, forms=forms)) == (
        "CAD5308: leaf `kv` of node 1 has another form\n"
        f"  expected: region `kv` at length 1\n  got:      float16[1, 1, 4] strides []\n  hint:     {HINT}"
    )


def test_more_choices_than_anyone_can_try() -> None:
    made = program([event("go", choose={"n": (0, 2)}, do={"c": 0})], counters={"c": 0})
    good = toy_plan(made)
    events = (replace(made.events[0], choices=(Choice("n", 0, 2**60),)),)
    first = next(iter(closure_errors(replace(good, program=replace(made, events=events)))))
    assert str(first) == (f"CAD5309: event `go` has {2**60} choices\n  expected: at most 1000000\n  hint:     {HINT}")


def test_a_program_that_names_what_is_not_there_is_a_plan_error(plan: Plan) -> None:
    bad = replace(plan.program, regions=())
    assert codes(replace(plan, program=bad)) == ["CAD5307"]


def test_only_the_first_errors_are_said() -> None:
    plan = toy_plan(minicpm())
    with pytest.raises(ErrorList) as caught:
        check_closure(replace(plan, transitions=()))
    assert len(caught.value.errors) == 20


def test_a_node_of_other_parts_is_caught(plan: Plan) -> None:
    nodes = (replace(plan.nodes[0], configuration=Configuration((), (0, 0))), *plan.nodes[1:])
    assert codes(replace(plan, nodes=nodes)) == ["CAD5301"]
