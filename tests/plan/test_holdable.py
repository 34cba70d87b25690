"""What a load would refuse of an op is refused when it is compiled, by the line that calls it."""

from dataclasses import replace
from pathlib import Path

import pytest

from cadence_runtime.errors import CadenceError, PlanError, TargetError
from cadence_runtime.format.tape import Literal, Op, Tape
from cadencec.plan import compile as compiling
from cadencec.plan import holdable as holdable_module
from cadencec.plan.compile import compile_spec
from cadencec.plan.holdable import Holdable
from cadencec.spec import load_spec
from tests.cli.conftest import CASE_01

CALL = Op("aten::alias", (), (), (), (), (), "model.py:7")


def tape(**changes: object) -> Tape:
    return Tape("step", (), (), (), (CALL, replace(CALL, source="model.py:8", **changes)), (), ())  # type: ignore[arg-type]


def refused(made: Tape) -> str:
    with pytest.raises(TargetError) as caught:
        Holdable().require(made)
    return str(caught.value)


def test_an_op_of_a_library_that_no_plan_can_name() -> None:
    assert refused(tape(name="attention_3::forward")) == (
        "CAD4002: no plan can hold a call of `attention_3::forward` in stage `step`: an op has no name of an op\n"
        "  expected: `namespace::name.overload`\n"
        "  got:      `attention_3::forward`\n"
        "  at:       model.py:8\n"
        "  hint:     keep the op outside of the stage, and pass its result as an input"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"args": (Literal("int", "9" * 20),)},
        {"kwargs": (("b", Literal("none", "")), ("a", Literal("none", "")))},
        {"args": (Literal("layout", "sparse_coo"),)},
    ],
)
def test_operands_that_no_plan_can_hold(changes: dict[str, object]) -> None:
    assert "\n  at:       model.py:8\n" in refused(tape(**changes))


def test_a_source_line_that_no_screen_should_show() -> None:
    made = tape()
    message = refused(replace(made, ops=(replace(CALL, source="mo\x1b[31mdel.py:7"),)))
    assert "a source line is not printable" in message
    assert "\x1b" not in message


def test_what_can_be_held_passes() -> None:
    Holdable().require(tape())


def test_an_op_that_tapes_share_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Op] = []
    monkeypatch.setattr(holdable_module, "op_errors", lambda op, at, texts: looked_at.append(op) or ())
    one, holdable = tape(), Holdable()
    for made in (one, replace(one, ops=(*one.ops, CALL)), tape()):
        holdable.require(made)
    assert looked_at == [CALL, one.ops[1], one.ops[1]]  # the last tape has an op of its own


def test_what_a_load_says_of_operands_is_said_by_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    told = PlanError("CAD5603", "a tape calls an op with other operands than it takes", at="model.py:9")
    monkeypatch.setattr(compiling, "op_faults", lambda plan: iter([told]))
    with pytest.raises(CadenceError, match=r"^CAD5603(.|\n)*model.py:9"):
        compile_spec(load_spec(Path(CASE_01)), walk_events=2)
