"""The closure checker knows rows: an indexed stage has a capture for each index, which meets its own row only."""

from dataclasses import replace

import pytest

from cadence_runtime.format.closure import closure_errors
from cadence_runtime.format.plan import Capture, Plan
from tests.host.programs import minicpm
from tests.timeline.plans import toy_plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return toy_plan(minicpm())


def with_captures(plan: Plan, captures: list[Capture]) -> set[tuple[str, str | None, str | None]]:
    changed = replace(plan, captures=tuple(captures))
    return {(error.code, error.expected, error.got) for error in closure_errors(changed)}


def test_rows_are_leaves_and_indices_stand_behind_args(plan: Plan) -> None:
    rows = [leaf.path for leaf in plan.leaves if leaf.owner == "estimator.att"]
    assert rows == [f"{rows[0].partition('[')[0]}[{row}]" for row in range(5)]
    assert {capture.key.args[-1] for capture in plan.captures if capture.key.stage == "denoise"} == set(range(5))


def test_a_capture_of_another_row_is_caught(plan: Plan) -> None:
    """Index 1 reads and writes what is index 0's; the forms of the two rows are the same."""
    rows = [i for i, leaf in enumerate(plan.leaves) if leaf.owner == "estimator.att"]
    other = {rows[1]: rows[0]}
    captures = []
    for capture in plan.captures:
        if capture.key.stage == "denoise" and capture.key.args[-1] == 1:
            state = tuple((other.get(leaf, leaf), form) for leaf, form in capture.key.state)
            capture = replace(capture, key=replace(capture.key, state=state))  # noqa: PLW2901
        captures.append(capture)
    found = with_captures(plan, captures)
    assert {code for code, _, _ in found} == {"CAD5306"}
    assert any(expected == "rows `[1]`" for _, expected, _ in found)


def test_a_capture_at_another_index_is_caught(plan: Plan) -> None:
    captures = [
        replace(capture, key=replace(capture.key, args=(*capture.key.args[:-1], 0)))
        if capture.key.stage == "denoise" and capture.key.args == (50, 4)
        else capture
        for capture in plan.captures
    ]
    assert ("CAD5306", "`denoise` (50, 4)", "`denoise` (50, 0)") in with_captures(plan, captures)
