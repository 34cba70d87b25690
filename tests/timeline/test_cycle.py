"""The steady cycle, and the balance of rates over it."""

from dataclasses import replace
from fractions import Fraction

import pytest

from cadence_runtime.errors import TimelineError
from cadence_runtime.host.program import Clock, Program, Queue
from cadencec.timeline import Timeline, build
from tests.host.programs import event, growing_cache, minicpm, program, region, stage


def path(timeline: Timeline) -> tuple[list[str], list[str]]:
    assert timeline.cycle is not None
    names = [event.name for event in timeline.program.events]
    return tuple(  # type: ignore[return-value]
        [names[timeline.transitions[i].event] for i in part]
        for part in (timeline.cycle.entry, timeline.cycle.transitions)
    )


def test_the_live_rule_settles_on_one_second_units() -> None:
    timeline = build(minicpm())
    assert path(timeline) == (["first", "unit"], ["unit"])
    assert timeline.cycle is not None
    assert timeline.cycle.seconds == (("encode", 1), ("denoise", 1), ("vocode", 1))
    (steady,) = timeline.cycle.transitions
    keys = [timeline.keys[key] for key in timeline.transitions[steady].keys]
    assert [(key.args, key.lengths) for key in keys[:2]] == [((28, 0), (400,)), ((50,), (400,))]


def test_a_session_that_its_horizon_ends_has_no_cycle() -> None:
    assert build(growing_cache()).cycle is None


def test_a_cycle_of_one_event_may_take_several_pushes() -> None:
    made = program(
        [event("go", advance=("frame", "c + 1"), run=["s"], do={"c": "(c + 1) % 3"})],
        regions=[region("r", "window", 4)],
        stages=[stage("s", ["r"])],
        counters={"c": 0},
    )
    timeline = build(made)
    assert path(timeline) == (["go"] * 3, ["go"] * 3)
    assert timeline.cycle is not None and timeline.cycle.seconds == (("s", Fraction(6, 50)),)


def test_a_cycle_of_two_events_is_found_where_none_repeats() -> None:
    made = program(
        [
            event("tick", when="c == 0", do={"c": 1}),
            event("tock", when="c == 1", advance=("frame", 5), run=["s"], do={"c": 0}),
        ],
        regions=[region("r", "window", 5)],
        stages=[stage("s", ["r"])],
        counters={"c": 0},
    )
    timeline = build(made)
    assert sorted(path(timeline)[1]) == ["tick", "tock"]


def test_a_reset_is_no_cycle() -> None:
    made = program([event("go", advance=("frame", 1), run=["s"], reset=True)], stages=[stage("s", [])])
    assert build(made).cycle is None


# Balance.


def vocoder(clock: str, ticks: int, cadence: Fraction | None = Fraction(1)) -> Program:
    made = program(
        [event("unit", advance=(clock, ticks), run=["vocode"])],
        clocks={"mel": 50, "sample": 24000},
        regions=[region("tail", "window", 8, clock="mel")],
        stages=[stage("vocode", ["tail"])],
    )
    return replace(made, cadence_s=cadence)


def test_rates_that_balance_say_nothing() -> None:
    assert build(vocoder("mel", 50)).findings == ()
    assert build(vocoder("sample", 24000)).findings == ()
    assert build(vocoder("mel", 37, cadence=None)).findings == ()


def test_samples_where_frames_were_meant() -> None:
    with pytest.raises(TimelineError) as caught:
        build(vocoder("mel", 24000), where=lambda subject: f"x.yaml:{subject}")
    assert str(caught.value) == (
        "CAD2202: stage `vocode` moves on by 480 s a push, and `cadence` by 1 s\n"
        "  expected: the same time on every way\n"
        "  got:      1 push x 24000 `mel` ticks of stage `vocode` x 1/50 s = 480 s; 1 push x 1 s of `cadence` = 1 s\n"
        "  at:       x.yaml:events.unit.advance\n"
        "  hint:     24000 ticks of `sample` are 1 s: were they meant? of `mel` it takes 50"
    )


def test_frames_where_samples_were_meant() -> None:
    made = vocoder("sample", 50)
    # Half a frame of `mel` would stop the search first.
    made = replace(made, regions=(replace(made.regions[0], clock="sample"),))
    with pytest.raises(TimelineError) as caught:
        build(made)
    assert caught.value.hint == "50 ticks of `mel` are 1 s: were they meant? of `sample` it takes 24000"


def test_a_cadence_with_slack_is_only_a_note() -> None:
    (found,) = build(vocoder("mel", 48)).findings
    assert (found.code, found.subject) == ("CAD2203", "events.unit.advance")
    assert found.what == (
        "stage `vocode` moves on by 24/25 s a push, and `cadence` by 1 s "
        "(1 push x 48 `mel` ticks of stage `vocode` x 1/50 s = 24/25 s; 1 push x 1 s of `cadence` = 1 s)"
    )


def test_twice_a_rate_may_be_meant() -> None:
    made = vocoder("mel", 50, cadence=Fraction(1, 2))
    made = replace(made, clocks=(*made.clocks, Clock("token", Fraction(25))))
    assert [found.code for found in build(made).findings] == ["CAD2203"]


def test_a_queue_that_passes_at_another_rate_than_its_clock() -> None:
    made = program(
        [
            event("unit", inputs={"token": [1, 24]}, do={"token_rows": "token_rows + 24"}),
            event(
                "chunk",
                internal=True,
                when="token_rows >= 24",
                inputs={"token": [1, 24]},
                advance=("mel", 50),
                run=["vocode"],
                do={"token_rows": "token_rows - 24"},
            ),
        ],
        clocks={"token": 25, "mel": 50},
        counters={"token_rows": 0},
        queues=[Queue("token", "token_rows", "int64", 1, ())],
        regions=[region("tail", "window", 8, clock="mel")],
        stages=[stage("vocode", ["tail"])],
    )
    with pytest.raises(TimelineError) as caught:
        build(made, where=lambda subject: f"x.yaml:{subject}")
    assert str(caught.value) == (
        "CAD2201: stage `vocode` moves on by 1 s a push, and queue `token` by 24/25 s\n"
        "  expected: the same time on every way\n"
        "  got:      1 push x 50 `mel` ticks of stage `vocode` x 1/50 s = 1 s; "
        "1 push x 24 `token` ticks of queue `token` x 1/25 s = 24/25 s\n"
        "  at:       x.yaml:queues.token\n"
        "  hint:     correct the rate in `clocks`, or what `do` takes from the queue"
    )
