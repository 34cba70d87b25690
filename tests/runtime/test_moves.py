"""Moves are pushes that a session takes, and walks come by everything that can be come by."""

from collections import deque
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cadence_runtime import LoadedPlan
from cadence_runtime.errors import SessionError
from cadence_runtime.format.plan import Plan, Transition
from cadence_runtime.moves import Moves, zeros


def test_every_move_of_a_walk_is_a_push_that_leads_where_it_says(plan: LoadedPlan) -> None:
    moves = Moves(plan.plan)
    pushed = 0
    for walk in moves.cover(1000):
        with plan.session() as session:
            for transition in walk:
                move = moves.of(transition)
                assert move.event in session.enabled
                session.push(move.event, **move.arrays(zeros))
                assert session._node == transition.target
                pushed += 1
    assert pushed >= len({transition.captures for transition in plan.plan.transitions})


AUTOMATA = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)), max_size=14)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=AUTOMATA)
def test_walks_start_at_the_start_hang_together_and_cover_what_can_be_reached(
    plan: LoadedPlan, rows: list[tuple[int, int, int]]
) -> None:
    transitions = tuple(Transition(source, 0, (), (captures,), target) for source, target, captures in rows)
    walks = list(Moves(with_transitions(plan.plan, transitions)).cover(1000))
    for walk in walks:
        assert [0, *(transition.target for transition in walk[:-1])] == [transition.source for transition in walk]
    assert {t.captures for walk in walks for t in walk} == reachable(transitions)


def test_a_walk_is_no_longer_than_its_limit(plan: LoadedPlan) -> None:
    whole = sum(map(len, Moves(plan.plan).cover(1000)))
    assert [sum(map(len, Moves(plan.plan).cover(limit))) for limit in (1, 2, whole, 1000)] == [1, 2, whole, whole]


def test_inputs_of_a_dtype_that_numpy_does_not_know_are_refused() -> None:
    assert zeros("x", "int16", (2, 3)).shape == (2, 3)
    with pytest.raises(SessionError) as caught:
        zeros("x", "bfloat16", (1,))
    assert str(caught.value) == (
        "CAD7061: no array can be made for input `x`\n"
        "  expected: a dtype that numpy knows\n"
        "  got:      bfloat16\n"
        "  hint:     push to the plan from your own code: only rehearsals need arrays made for them"
    )


def with_transitions(plan: Plan, transitions: tuple[Transition, ...]) -> Plan:
    return replace(plan, transitions=transitions)


def reachable(transitions: tuple[Transition, ...]) -> set[tuple[int, ...]]:
    """What a search that keeps no order finds."""
    nodes, waiting, found = {0}, deque([0]), set()
    while waiting:
        node = waiting.popleft()
        for transition in transitions:
            if transition.source == node:
                found.add(transition.captures)
                if transition.target not in nodes:
                    nodes.add(transition.target)
                    waiting.append(transition.target)
    return found
