"""A program from outside may name anything; whatever is not there is said before a session starts."""

from dataclasses import replace
from fractions import Fraction

import pytest

from cadence_runtime.errors import ErrorList, TimelineError
from cadence_runtime.host.program import ABSENT, Clock, Program, Queue
from cadence_runtime.host.step import start
from tests.host.programs import event, minicpm, program, region, stage

GOOD = minicpm()


@pytest.mark.parametrize(
    ("made", "what", "expected", "got"),
    [
        (
            replace(GOOD, clocks=(*GOOD.clocks, Clock("stopped", Fraction(0)))),
            "clock `stopped`",
            "a rate above 0",
            "0 Hz",
        ),
        (
            program([], regions=[region("r", "grow", clock="mel")]),
            "region `r`",
            "one of `frame`",
            "clock `mel`",
        ),
        (program([], regions=[region("r", "window")]), "region `r`", "a cap for its window", "none"),
        (program([], regions=[region("r", "window", -2)]), "region `r`", "a cap of 0 or more", "-2"),
        (program([], regions=[region("r", "grow", start=-2)]), "region `r`", "a start of 0 or more", "-2"),
        (
            program([], regions=[region("r", "fixed", start=ABSENT)]),
            "region `r`",
            "a cap, since it is absent at the start",
            "none",
        ),
        (
            program([], queues=[Queue("q", "n", "int64", 0, ())]),
            "queue `q`",
            "a counter that exists",
            "counter `n`",
        ),
        (
            program([], counters={"n": 2}, queues=[Queue("q", "n", "int64", 0, (1, 2, 3))]),
            "queue `q`",
            "counter `n` to start at its 3 rows",
            "2",
        ),
        (program([], stages=[stage("s", ["r"])]), "stage `s`", "a region that exists", "region `r`"),
        (program([], stages=[stage("s", [], repeat=("i", 0))]), "stage `s`", "to repeat once or more", "0"),
        (program([event("go", run=["s"])]), "event `go`", "a stage that exists", "stage `s`"),
        (program([event("go", do={"c": 1})]), "event `go`", "a counter that exists", "counter `c`"),
        (program([event("go", advance=("mel", 1))]), "event `go`", "one of `frame`", "clock `mel`"),
        (program([event("go", restart=["r"])]), "event `go`", "a region that exists", "region `r`"),
        (
            program([event("go", run=["s"])], stages=[stage("s", [], args=["tok"])]),
            "stage `s` in event `go`",
            "one of `frame`",
            "arg `tok`",
        ),
        (
            program([event("go", internal=True, when="0", choose={"n": (0, 2)})]),
            "event `go`",
            "no choices, since nobody picks them for an internal event",
            "`n`",
        ),
        (
            program([event("go", inputs={"q": [1]})], counters={"n": 0}, queues=[Queue("q", "n", "int64", 1, ())]),
            "input `q` of event `go`",
            "an axis 1, along which its queue grows",
            "none",
        ),
    ],
)
def test_what_is_not_there_is_named(made: Program, what: str, expected: str, got: str) -> None:
    with pytest.raises(TimelineError) as caught:
        start(made)
    error = caught.value
    assert (error.code, error.what) == ("CAD2001", f"{what} does not fit the rest of its program")
    assert (error.expected, error.got) == (expected, got)


def test_all_at_once() -> None:
    with pytest.raises(ErrorList) as caught:
        start(program([event("a", run=["s"]), event("b", restart=["r"])]))
    assert [error.got for error in caught.value.errors] == ["stage `s`", "region `r`"]
