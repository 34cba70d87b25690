"""What a timeline says of its executables: what comes next, and the budgets that follow."""

import pytest

from cadence_runtime.errors import UsageError
from tests.cuda.timelines import Push, needs_of, nodes

SIZES = [2, 3, 4, 5, 1]
PUSHES = [Push(0, 1, (1, 2, 1), n=3), Push(0, 0, (4,)), Push(1, 2, (3,), n=5), Push(2, 0, (4, 2))]


def test_what_a_push_runs_and_what_can_come_next() -> None:
    needs = needs_of(SIZES, PUSHES)
    assert needs.opening == (0,)
    assert needs.of((1, 2, 1)) == (1, 2)
    assert needs.next(0) == ((1, 2), (4,))
    assert needs.next(1) == ((3,),)


def test_what_a_session_runs_first_comes_first() -> None:
    assert needs_of(SIZES, PUSHES).nearest() == (0, 1, 2, 4, 3)
    unreached = [*PUSHES, Push(7, 7, (5,))]
    assert needs_of([*SIZES, 9], unreached).nearest() == (0, 1, 2, 4, 3)


def test_captures_that_share_a_graph_need_it_once() -> None:
    needs = needs_of([2, 3], [Push(0, 0, (1, 2, 3))], launches=(0, 1, 1, 1))
    assert needs.next(0) == ((1,),)
    assert needs.captures == {0: 0, 1: 1}
    assert needs.push_bytes == nodes(3)


def test_the_two_budgets() -> None:
    needs = needs_of(SIZES, PUSHES)
    assert needs.push_bytes == nodes(3 + 4)  # the push from node 0 with n = 3
    assert needs.ahead_bytes == nodes(3 + 4 + 1)  # and the other push from there
    assert needs_of([9, 1], [Push(0, 0, (1,))]).ahead_bytes == nodes(9)  # to open a session takes more


def test_a_budget_that_does_not_hold_a_push_is_refused_with_the_figures() -> None:
    needs = needs_of(SIZES, PUSHES)
    needs.check(nodes(7))
    with pytest.raises(UsageError) as caught:
        needs.check(nodes(7) - 1)
    assert str(caught.value) == (
        "CAD9704: the budget does not hold the executables that one push runs\n"
        "  expected: at least 21504 bytes, for `speak` with n = 3\n"
        "  got:      21503 bytes\n"
        "  hint:     with 24576 bytes, all that a session can run next is built ahead"
    )


def test_a_session_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(UsageError, match="at least 27648 bytes, for the opening of a session"):
        needs_of([9, 1], [Push(0, 0, (1,))]).check(0)
