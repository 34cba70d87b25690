"""What is legal and probably not meant, and starts that are not at rest."""

import pytest

from cadence_runtime.errors import TimelineError
from cadence_runtime.host.program import Program
from cadencec.timeline import Finding, build
from tests.host.programs import event, growing_cache, program, stage


def found(made: Program) -> tuple[Finding, ...]:
    return build(made).findings


def test_event_that_can_never_happen() -> None:
    made = program([event("go", do={"c": 1}), event("late", when="c == 2")], counters={"c": 0})
    assert found(made) == (
        Finding(
            "CAD2301",
            "event `late` can never happen: `when: c == 2` never holds where it could happen",
            "events.late",
        ),
    )


def test_internal_event_that_can_never_happen_and_its_stage() -> None:
    made = program(
        [event("go"), event("then", internal=True, when="c == 2", run=["s"])],
        counters={"c": 0},
        stages=[stage("s", [])],
    )
    assert [(each.code, each.what, each.subject) for each in found(made)] == [
        (
            "CAD2301",
            "event `then` can never happen: `when: c == 2` never holds where it could happen",
            "events.then",
        ),
        ("CAD2302", "stage `s` is never run", "stages.s"),
    ]


def test_internal_events_that_happen_are_not_reported() -> None:
    made = program(
        [event("go", do={"c": 1}), event("then", internal=True, when="c == 1", do={"c": 0})], counters={"c": 0}
    )
    assert found(made) == ()


def test_dead_end() -> None:
    made = program([event("go", when="c < 2", do={"c": "c + 1"})], counters={"c": 0})
    assert found(made) == (
        Finding(
            "CAD2303",
            "nothing can happen any more after `go` then `go`",
            "events",
            "add an event that resets, such as `turn: {reset: true}`",
        ),
    )


def test_the_end_of_a_horizon_is_no_dead_end() -> None:
    made = growing_cache()
    assert found(program([made.events[0]], regions=made.regions, stages=made.stages, horizon=made.horizon)) == ()


def test_internal_event_at_the_start() -> None:
    made = program([event("go"), event("then", internal=True, when="c == 0", do={"c": 1})], counters={"c": 0})
    with pytest.raises(TimelineError) as caught:
        build(made, where=lambda subject: f"x.yaml:{subject}")
    assert str(caught.value) == (
        "CAD2009: internal event `then` is enabled at the start\n"
        "  expected: a start where nothing happens before a push\n"
        "  got:      `c == 0`\n"
        "  at:       x.yaml:events.then.when\n"
        "  hint:     add a counter that the first external event sets, and look at it in `when`"
    )


def test_input_of_negative_size() -> None:
    made = program(
        [event("go", inputs={"x": [1, "c - 3"]}, run=["s"])], counters={"c": 1}, stages=[stage("s", [], inputs=["x"])]
    )
    with pytest.raises(TimelineError) as caught:
        build(made)
    assert str(caught.value) == (
        "CAD2010: input `x` of stage `s` has a negative size after `go`\n"
        "  expected: sizes of 0 or more\n"
        "  got:      [1, -2]\n"
        "  hint:     guard the event, or use `max(0, ...)`"
    )


def test_an_error_of_the_host_gets_its_place_in_the_spec() -> None:
    made = program([event("go", do={"c": "1 // c"})], counters={"c": 0})
    with pytest.raises(TimelineError) as caught:
        build(made, where=lambda subject: f"x.yaml:{subject}")
    assert caught.value.at == "x.yaml:events.go, column 3 of `1 // c`"
