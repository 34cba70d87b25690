"""The session that all sides run: which of its pushes are steady, and its inputs on the way through a file."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cadence_runtime.errors import TraceError
from cadencec.bench.agenda import CLOCKLESS_PUSHES, pushes_of, rows, steady, until_first_output
from cadencec.bench.equal import first_difference
from cadencec.bench.rows import Array, Row, literal, read_rows, write_rows
from cadencec.bench.tensors import array_of, tensor_of
from cadencec.plan.turns import Timeline
from tests.bench.conftest import Case, case
from tests.plan.models import STEP
from tests.verify.test_verify import LINEAR


def test_what_goes_on_within_a_turn_is_steady(pipeline_case: Case) -> None:
    timeline = Timeline(pipeline_case.plan)
    found = steady(timeline)
    events = pipeline_case.plan.program.events
    assert {events[transition.event].name for transition in found} == {"unit"}
    assert all(not timeline.resets(timeline.push(transition)) for transition in found)
    units = [t for t in pipeline_case.plan.transitions if events[t.event].name == "unit"]
    assert len(found) < len(units)  # caches grow in the first of a turn
    node, full = 0, set()
    for _ in range(100):
        made = next((p for p in timeline.leaving(node) if events[p.transition.event].name == "unit"), None)
        made = made or timeline.leaving(node)[0]
        node = made.transition.target
        full.add(made.transition)
    assert found & full


def test_a_session_follows_from_its_seed_and_a_model_without_clocks_has_one(tmp_path: Path, talk_case: Case) -> None:
    timeline = Timeline(talk_case.plan)
    pushes = pushes_of(timeline, 3, 4, 1)
    assert pushes == pushes_of(timeline, 3, 4, 1) != pushes_of(timeline, 3, 4, 2)
    assert sum(map(timeline.resets, pushes)) >= 4 and sum(map(timeline.seconds, pushes)) >= 3
    first = until_first_output(timeline, pushes)
    assert [timeline.runs(push) for push in pushes[:first]] == [False] * (first - 1) + [True]
    clockless = Timeline(case(tmp_path, "regions: {h: {shape: [2, 4]}}" + STEP, LINEAR).plan)
    assert len(pushes_of(clockless, 60, 3, 0)) == CLOCKLESS_PUSHES


def test_rows_come_back_from_a_file_as_they_were(tmp_path: Path, pipeline_case: Case) -> None:
    pushes = pushes_of(Timeline(pipeline_case.plan), 2, 2, 0)
    made = [*rows(pipeline_case.plan, pushes, 0), Row({"event": "none"}, (literal("k", None),))]
    write_rows(tmp_path / "talk.rows", made)
    found = read_rows(tmp_path / "talk.rows")
    assert found == made and len(found) == len(pushes) + 1
    assert {row.head["event"] for row in found[:-1]} >= {"first", "unit"}
    token = next(row for row in found if row.head["event"] == "unit").arrays[0]
    assert (token.name, token.dtype, token.sizes) == ("token", "int64", (1, 3))
    assert tensor_of(found[-1].arrays[0]) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("sizes", [(), (0, 3), (2, 3)])
def test_tensors_are_arrays_and_back(dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    one = torch.randint(0, 2, sizes, generator=torch.Generator().manual_seed(1)).to(dtype)
    again = tensor_of(array_of("x", one))
    assert again.dtype == dtype and torch.equal(again, one)


def row(number: int, **named: object) -> Row:
    return Row({"push": number}, tuple(array_of(name, value) for name, value in named.items()))


def difference(got: list[Row], expected: list[Row]) -> str | None:
    return first_difference(got, expected, ["a", "b", "c"], "the loop")


def test_the_first_difference_is_named() -> None:
    one, nan = torch.tensor([1.0, 2.0]), torch.tensor([float("nan"), -0.0])
    assert difference([], []) is None
    assert difference([row(1, y=one, z=nan)], [row(1, z=nan, y=one)]) is None
    assert difference([row(0, y=nan)], [row(0, y=nan * torch.tensor([1.0, -1.0]))]) is not None
    found = difference([row(0, y=one), row(2, y=one + 1)], [row(0, y=one), row(2, y=one)])
    assert found is not None and found.startswith("push 3 (`c`), output `y`: ")
    assert difference([row(0, y=one), row(1, y=one)], [row(0, y=one)]) == "push 2 (`b`): outputs on one side only"
    assert difference([row(1, y=one)], [row(0, y=one), row(1, y=one)]) == "push 1 (`a`): outputs on one side only"
    with pytest.raises(TraceError, match="CAD3426: the loop has other names for the outputs of `b`"):
        difference([row(1, y=one)], [row(1, x=one)])


def test_raw_bits_stand_for_a_dtype_that_numpy_has_not() -> None:
    half = torch.tensor([1.0, -2.0], dtype=torch.bfloat16)
    bits = half.view(torch.uint16).numpy()
    raw = Row({"push": 0}, (Array("y", str(bits.dtype), bits.shape, bits.tobytes()),))
    assert difference([raw], [row(0, y=half)]) is None
    other = Row({"push": 0}, (Array("y", "uint16", (2,), np.array([1, 2], np.uint16).tobytes()),))
    found = difference([other], [row(0, y=half)])
    assert found is not None and found.startswith("push 1 (`a`), output `y`: ")
