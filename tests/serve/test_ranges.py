"""Integers beyond what the plan declares are refused before they reach a device."""

import numpy as np
import pytest

from cadence_runtime.errors import SessionError
from cadence_runtime.host.program import Program, Stage, StageInput
from cadence_serve.ranges import Ranges

STAGES = (
    Stage("encode", (), (), (StageInput("token", "int64", lower=0, upper=100), StageInput("x", "float32")), ()),
    Stage("decode", (), (), (StageInput("token", "int64", lower=5, upper=200), StageInput("any", "int64")), ()),
)
RANGES = Ranges(Program((), (), (), (), (), STAGES, (), None, None))


def test_what_is_declared_passes() -> None:
    RANGES.check("e", {"token": np.array([5, 99]), "x": np.array([1e9]), "any": np.array([-(2**62)])})
    RANGES.check("e", {"token": np.zeros((1, 0), np.int64), "other": np.array([7])})


@pytest.mark.parametrize(("values", "got"), [([4, 7], "from 4 to 7"), ([6, 100], "from 6 to 100")])
def test_what_is_not_is_refused(values: list[int], got: str) -> None:
    with pytest.raises(SessionError) as caught:
        RANGES.check("unit", {"token": np.array(values)})
    assert str(caught.value) == (
        "CAD7082: input `token` of event `unit` has values that the plan does not declare\n"
        f"  expected: from 5 to 99\n  got:      {got}"
    )
