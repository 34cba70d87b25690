"""Along a template, whatever it is of, a recording is what it is without: only views are left out."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import nn

from cadence_runtime.errors import TraceError
from cadence_runtime.format.tape import Op, Tape
from cadencec.trace.bits import same_bits
from cadencec.trace.effects import effects_of
from cadencec.trace.recorder import Recording, collect_weights
from cadencec.trace.template import Template
from tests.trace.programs import Program, programs
from tests.trace.stages import fresh, other, trace

STATE = {"a": torch.zeros(3, 4), "b": torch.zeros(3, 4).t()}
X = torch.linspace(-1, 1, 8)


def ops_of(tape: Tape) -> list[Op]:
    return [op for op in tape.ops if op.reads or op.writes or effects_of(op.name).reserves]


def check_same(along: Recording, alone: Recording, *, with_source: bool = True) -> None:
    """Compare two recordings of one stage on the same values."""
    left, right = along.tape, alone.tape
    if along.departed or not with_source:
        left, right = (replace(t, ops=tuple(replace(op, source="") for op in t.ops)) for t in (left, right))
    assert ops_of(left) == ops_of(right)
    assert replace(left, ops=()) == replace(right, ops=())
    assert (along.numerics, along.derived) == (alone.numerics, alone.derived)
    assert {name: data.tolist() for name, data in along.constants.items()} == {
        name: data.tolist() for name, data in alone.constants.items()
    }
    assert all(map(same_bits, along.outputs, alone.outputs))
    assert all(same_bits(along.state[path], alone.state[path]) for path in alone.state)


def recorded(program: Program, rows: int, template: Template | None = None) -> Recording:
    state = {path: other(leaf, 1) for path, leaf in STATE.items()}
    torch.manual_seed(3)
    x = other(torch.zeros(rows, 4), 1)
    return trace(program.step, state, x, weights=collect_weights(program), outputs=2, template=template)


def check(program: Program, another: Program) -> None:
    for teacher in (program, another):
        template = recorded(teacher, 3).template
        for rows in (3, 5):
            alone = recorded(program, rows)
            try:
                along = recorded(program, rows, template)
            except TraceError as error:
                # An op that only made a view, and now makes something else: the compiler records again without.
                assert error.code == "CAD3006" and (teacher is another or rows == 5)
                continue
            check_same(along, alone, with_source=teacher is program and rows == 3)
            assert not along.departed or teacher is another or rows == 5


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(programs, programs)
def test_random_stages_along_templates_of_their_own_and_of_others(program: Program, another: Program) -> None:
    check(program, another)


@pytest.mark.soak
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
@given(programs, programs)
def test_many_random_stages_along_templates(program: Program, another: Program) -> None:
    check(program, another)


def along(step: Any, first: Any, *later: Any, model: object = None) -> list[Recording]:
    """Record a stage without a template and then along the one before, on each x; compare each with one alone."""
    found = [trace(step, {}, fresh(first), model=model)]
    for x in later:
        found.append(trace(step, {}, fresh(x), model=model, template=found[-1].template))
        check_same(found[-1], trace(step, {}, fresh(x), model=model))
    return found


def test_ops_that_are_the_same_are_taken_and_sizes_are_not() -> None:
    ones = torch.ones(3)

    def step(s: Any, x: Any) -> Any:
        return s, [torch.cat([x * 2, x[1:].view(-1)]).sum() + torch.tanh(torch.arange(3) * 1.0).sum()]

    first, second = along(step, X, torch.cat([X, ones]))
    assert not second.departed
    taken = [op.name for op in second.tape.ops if any(op is known for known in first.tape.ops)]
    assert taken == [
        "aten::arange", "aten::mul.Tensor", "aten::tanh", "aten::sum", "aten::add.Tensor",
    ]  # fmt: skip
    assert {op.name for op in first.tape.ops} - {op.name for op in second.tape.ops} == {
        "aten::slice.Tensor",
        "aten::view",
    }


@pytest.mark.parametrize(
    "body",
    [
        "x * (2.0 if len(x) == 8 else 2.5)",
        "x * (0.0 if len(x) == 8 else -0.0)",
        "x.sum(0, keepdim=len(x) == 8)",
        "torch.cat([x, x] if len(x) == 8 else [x, x, x])",
        "torch.clamp(x, 0, 1 if len(x) == 8 else None)",
        "x.to(torch.float64 if len(x) == 8 else torch.float16)",
        "torch.tanh(x) if len(x) == 8 else torch.sigmoid(x)",
        "x if len(x) == 8 else x + 1",
        "torch.add(x, x, out=torch.empty(len(x)))",
        "x + torch.tensor(3.0) + torch.tensor([float(len(x))])",
        "torch.empty(len(x)).copy_(x) + (x if len(x) == 8 else x.clone())",
        "x.contiguous().view(2, -1).t().contiguous()",
        "x[: 4 if len(x) == 8 else 5].unfold(0, 2, 1).expand(3, -1, -1) * 2",
        "x.split(4)[0] * 2 + torch.cat([torch.stack(x.split(4)[:2]).unbind()[0]])",
    ],
)
def test_what_depends_on_the_key(body: str) -> None:
    step = eval(f"lambda s, x: (s, [{body}])", {"torch": torch})  # noqa: S307 - the bodies above
    along(step, X, torch.linspace(-1, 1, 12), X)


def test_draws_and_weights_and_writes_through_views() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.register_buffer("scratch", torch.zeros(2, 4))

        def step(self, s: Any, x: Any) -> Any:
            torch.manual_seed(2)
            rows = x.view(-1, 4).clone()
            rows[0].add_(1)
            self.scratch.copy_(self.lin(rows)[:2])
            return s, [torch.cat([rows, self.scratch, self.lin.weight.t()])]

    model = Model().requires_grad_(False)
    with pytest.raises(TraceError, match="CAD3103"):
        along(model.step, X, model=model)

    def drawing(s: Any, x: Any) -> Any:
        rows = x.view(-1, 4).clone()
        rows[0].add_(1)
        model.scratch.copy_(model.lin(rows)[:2])
        return s, [torch.cat([rows + torch.randn(1, 4), model.scratch, model.lin.weight.t()])]

    for x in (X, torch.linspace(-1, 1, 12)):
        torch.manual_seed(1)
        first = trace(drawing, {}, fresh(x), model=model)
        torch.manual_seed(1)
        second = trace(drawing, {}, fresh(x), model=model, template=first.template)
        check_same(second, first)
        assert not second.departed and second.tape.draws


def test_an_input_that_the_stage_changes_in_place_is_kept_for_the_second_run() -> None:
    class Model(nn.Module):
        table: torch.Tensor | None = None

        def step(self, s: Any, x: Any) -> Any:
            x.mul_(2)
            if self.table is None or len(self.table) != len(x):
                self.table = torch.arange(len(x)) * 1.0
            return s, [x + self.table]

    model = Model()
    first = trace(model.step, {}, X.clone(), model=model)
    longer = torch.linspace(-1, 1, 12)
    second = trace(model.step, {}, longer.clone(), model=model, template=first.template)
    assert torch.equal(second.outputs[0], longer * 2 + torch.arange(12))
