"""One event: its order, its retentions, and every message that a session can meet."""

from fractions import Fraction

import pytest

from cadence_runtime.errors import CadenceError, SessionError, TimelineError
from cadence_runtime.host.program import ABSENT, Configuration, Horizon, Program, Queue
from cadence_runtime.host.step import enabled, fire, push, start
from tests.host.programs import SILENCE, event, growing_cache, minicpm, program, region, stage


def message(call: object, *args: object) -> str:
    with pytest.raises(CadenceError) as caught:
        call(*args)  # type: ignore[operator]
    return str(caught.value)


def one_region(kind: str, cap: int | None, begin: int, ticks: int) -> int:
    """The length of a region after one event that moves its clock by `ticks`."""
    made = program(
        [event("go", advance=("frame", ticks), run=["s"])],
        regions=[region("r", kind, cap, start=begin)],
        stages=[stage("s", ["r"])],
    )
    return fire(made, start(made), "go", {}).after.lengths[0]


@pytest.mark.parametrize(
    ("kind", "cap", "begin", "ticks", "after"),
    [
        ("fixed", 4, 4, 3, 4),
        ("fixed", 4, ABSENT, 0, 4),
        ("ring", 10, 10, 4, 10),
        ("ring", 10, ABSENT, 4, 10),
        ("grow", None, 0, 3, 3),
        ("grow", None, 5, 3, 8),
        ("grow", None, ABSENT, 0, 0),
        ("window", 8, 0, 3, 3),
        ("window", 8, 6, 3, 8),
        ("window", 8, 8, 3, 8),
        ("window", 8, ABSENT, 20, 8),
    ],
)
def test_retention(kind: str, cap: int | None, begin: int, ticks: int, after: int) -> None:
    assert one_region(kind, cap, begin, ticks) == after


def test_a_region_without_a_length_axis_has_length_one_once_written() -> None:
    made = program(
        [event("go", run=["s"])],
        regions=[region("h", "fixed", start=ABSENT, clock=None, shape=(2, 1, 128))],
        stages=[stage("s", ["h"])],
    )
    assert start(made).lengths == (ABSENT,)
    assert fire(made, start(made), "go", {}).after.lengths == (1,)


def test_other_clocks_follow_by_their_rates_and_only_written_regions_move() -> None:
    made = program(
        [event("go", advance=("token", 5), run=["s"])],
        clocks={"token": 25, "mel": 50, "sample": 24000},
        regions=[
            region("tokens", "grow", clock="token"),
            region("mels", "grow", clock="mel"),
            region("samples", "grow", clock="sample"),
            region("untouched", "grow", clock="mel"),
        ],
        stages=[stage("s", ["tokens", "mels", "samples"])],
    )
    assert fire(made, start(made), "go", {}).after.lengths == (5, 10, 4800, 0)


def test_effects_are_simultaneous_and_lets_are_not() -> None:
    made = program(
        [event("swap", let={"x": "a + 1", "y": "x * 10"}, do={"a": "b", "b": "a", "c": "y"})],
        counters={"a": 1, "b": 2, "c": 0},
    )
    assert fire(made, start(made), "swap", {}).after.counters == (2, 1, 20)


def test_args_are_counters_before_effects_lets_choices_params_and_clocks() -> None:
    made = program(
        [
            event(
                "go",
                choose={"n": (0, 9)},
                let={"k": "n + P"},
                advance=("token", "n"),
                run=["s"],
                do={"c": "c + 1"},
            )
        ],
        clocks={"token": 25, "mel": 50},
        params={"P": 100},
        counters={"c": 7},
        stages=[stage("s", [], args=["c", "n", "k", "P", "token", "mel"])],
    )
    assert fire(made, start(made), "go", {"n": 3}).runs[0].args == (7, 3, 103, 100, 3, 6)


def test_a_later_stage_finds_what_an_earlier_one_wrote() -> None:
    made = program(
        [event("go", advance=("frame", 2), run=["first", "second"])],
        regions=[region("r", "grow", start=1)],
        stages=[stage("first", ["r"]), stage("second", ["r"])],
    )
    step = fire(made, start(made), "go", {})
    assert [run.lengths for run in step.runs] == [(1,), (3,)]
    assert step.after.lengths == (3,)


def test_each_index_sees_its_own_row_and_shared_regions_as_the_last_one_left_them() -> None:
    made = program(
        [event("go", advance=("frame", 2), run=["s"])],
        regions=[region("rows", "grow", start=1, shape=(3, None, 4)), region("shared", "grow", start=5)],
        stages=[stage("s", ["rows", "shared"], repeat=("i", 3), indexed=["rows"])],
    )
    step = fire(made, start(made), "go", {})
    assert [(run.index, run.lengths) for run in step.runs] == [(0, (1, 5)), (1, (1, 7)), (2, (1, 7))]
    assert step.after.lengths == (3, 7)


def test_restart_returns_one_region_and_reset_everything() -> None:
    made = program(
        [
            event("go", advance=("frame", 2), run=["s"], do={"c": "c + 1"}),
            event("flush", advance=("frame", 2), run=["s"], restart=["a"]),
            event("turn", reset=True),
        ],
        regions=[region("a", "grow", start=1), region("b", "grow")],
        stages=[stage("s", ["a", "b"])],
        counters={"c": 3},
        horizon=Horizon("events", Fraction(9)),
    )
    after = fire(made, start(made), "go", {}).after
    assert after == Configuration((4,), (3, 2), Fraction(1))
    assert fire(made, after, "flush", {}).after == Configuration((4,), (1, 4), Fraction(2))
    assert fire(made, after, "turn", {}).after == start(made)


def test_the_common_path_of_the_live_rule() -> None:
    made = minicpm()
    configuration, seen = start(made), []
    for name, choices in (("first", {"n": 25}), ("unit", {}), ("unit", {}), ("unit", {}), ("end", {"n": 7})):
        steps = push(made, configuration, name, choices)
        seen.append([(step.event, step.runs[1].lengths + step.runs[1].args) for step in steps if step.runs])
        configuration = steps[-1].after
    assert seen == [
        [("chunk", (300, 50))],
        [("chunk", (350, 50))],
        [("chunk", (400, 50))],
        [("chunk", (400, 50))],
        [("chunk", (400, 14)), ("last", (400, 6))],
    ]
    assert configuration == start(made)


def test_inputs_of_a_run_are_sizes_literals_or_left_to_an_earlier_stage() -> None:
    made = minicpm()
    chunk = push(made, start(made), "first", {"n": 9})[1]
    assert [run.inputs for run in chunk.runs[:2]] == [((1, 12),), ()]


def test_a_reset_is_allowed_past_the_horizon() -> None:
    made = growing_cache(1)
    full = push(made, start(made), "step", {})[-1].after
    assert push(made, full, "turn", {})[-1].after == start(made)


def test_a_push_is_refused_as_a_whole() -> None:
    """The horizon stops the internal event, so the external one does not happen either."""
    made = program(
        [
            event("go", do={"c": "c + 1"}),
            event("chunk", internal=True, when="c == 2", advance=("frame", 100), run=["s"], do={"c": 0}),
        ],
        regions=[region("r", "grow")],
        stages=[stage("s", ["r"])],
        counters={"c": 0},
        horizon=Horizon("seconds", Fraction(1)),
    )
    once = push(made, start(made), "go", {})[-1].after
    assert message(push, made, once, "go", {}) == (
        "CAD7005: `chunk` is refused by region `r`\n"
        "  expected: at most 1 s between resets\n"
        "  got:      0 s used, and `chunk` goes past them\n"
        "  hint:     open a new session, or compile with a longer horizon"
    )


# Messages of sessions.


def test_no_such_event() -> None:
    made = growing_cache()
    assert message(push, made, start(made), "stop", {}) == (
        "CAD7001: there is no event `stop`\n  expected: one of `step`, `turn`\n  got:      stop"
    )


def test_event_that_is_not_enabled() -> None:
    made = minicpm()
    assert message(push, made, start(made), "unit", {}) == (
        "CAD7002: event `unit` is not enabled\n"
        "  expected: `phase == 1`\n"
        "  got:      phase = 0\n"
        "  hint:     enabled now: `first`, `end`, `turn`"
    )
    assert enabled(made, start(made)) == ("first", "end", "turn")


def test_other_choices() -> None:
    made = minicpm()
    assert message(push, made, start(made), "first", {"m": 1}) == (
        "CAD7003: event `first` has other choices\n  expected: `n`\n  got:      `m`"
    )


def test_choice_out_of_range() -> None:
    made = minicpm()
    assert message(push, made, start(made), "first", {"n": 26}) == (
        "CAD7004: `n` of event `first` is out of range\n  expected: 0 to 25\n  got:      26"
    )


def test_seventh_step() -> None:
    made = growing_cache()
    configuration = start(made)
    for _ in range(6):
        configuration = push(made, configuration, "step", {})[-1].after
    assert configuration == Configuration((), (6,), Fraction(6))
    assert message(push, made, configuration, "step", {}) == (
        "CAD7005: a 7th `step` is refused by region `kv`\n"
        "  expected: at most 6 events between resets\n"
        "  got:      the 7th\n"
        "  hint:     push `turn` first"
    )


def test_internal_event() -> None:
    made = minicpm()
    assert message(push, made, start(made), "chunk", {}) == (
        "CAD7006: event `chunk` is internal\n"
        "  expected: one of `first`, `unit`, `end`, `turn`\n"
        "  got:      `chunk`\n"
        "  hint:     internal events follow by themselves once they are enabled"
    )


# Messages of programs that contradict themselves.


def go(made: Program) -> str:
    return message(push, made, start(made), "go", {})


def test_program_that_names_what_is_not_there() -> None:
    made = program([event("go", when="phase == 0")])
    with pytest.raises(TimelineError) as caught:
        start(made)
    assert str(caught.value) == (
        "CAD2001: event `go` does not fit the rest of its program\n"
        "  expected: a name that exists\n"
        "  got:      `phase` in `phase == 0`"
    )


def test_expression_without_a_value() -> None:
    made = program([event("go", do={"c": "6 // (c - 2)"})], counters={"c": 2})
    assert go(made) == (
        "CAD2002: an expression of event `go` has no value: `//` divides by zero\n"
        "  expected: a divisor other than 0\n"
        "  got:      c = 2\n"
        "  at:       column 3 of `6 // (c - 2)`\n"
        "  hint:     guard `go` so that it cannot happen there"
    )


def test_clock_that_moves_back() -> None:
    made = program([event("go", advance=("frame", "2 * (c - 3)"))], counters={"c": 2})
    assert go(made) == (
        "CAD2003: event `go` moves clock `frame` back\n"
        "  expected: `2 * (c - 3)` to be 0 or more\n"
        "  got:      -2 at c = 2\n"
        "  hint:     guard `go` so that it cannot happen there"
    )


def test_part_of_a_tick() -> None:
    made = program(
        [event("go", advance=("mel", 3), run=["s"])],
        clocks={"token": 25, "mel": 50},
        regions=[region("tokens", "grow", clock="token")],
        stages=[stage("s", ["tokens"])],
    )
    assert go(made) == (
        "CAD2004: region `tokens` does not move by whole ticks in event `go`\n"
        "  expected: 3 ticks x 1/2 to be a whole number\n"
        "  got:      3/2\n"
        "  hint:     advance by a multiple of 2 ticks, or correct a rate in `clocks`"
    )


def with_queue(*events: object, held: int = 2) -> Program:
    queue = Queue("token", "buf", "int64", 1, (SILENCE,) * held)
    return program(events, counters={"buf": held}, queues=[queue])  # type: ignore[arg-type]


def test_queue_and_counter_differ() -> None:
    made = with_queue(event("go", inputs={"token": [1, 5]}, do={"buf": "buf + 4"}))
    assert go(made) == (
        "CAD2005: event `go` brings 5 rows to queue `token`, but changes its counter otherwise\n"
        "  expected: `buf` to become 7\n"
        "  got:      6\n"
        "  hint:     write `buf: buf + ...` with the number of rows of input `token`"
    )


def test_queue_filled_by_nobody() -> None:
    made = with_queue(event("go", do={"buf": "buf + 1"}))
    assert go(made) == (
        "CAD2005: event `go` moves the counter of queue `token` to 3, and brings no rows\n"
        "  expected: `buf` from 0 to 2, the rows that it holds\n"
        "  got:      3\n"
        "  hint:     rows join a queue only by an input named `token` of an external event"
    )


def test_more_rows_than_there_are() -> None:
    made = with_queue(
        event("go", inputs={"token": [1, 1]}, do={"buf": "buf + 1"}),
        event("chunk", internal=True, when="buf == 3", inputs={"token": [1, 8]}, do={"buf": 0}),
    )
    assert go(made) == (
        "CAD2006: event `chunk` takes 8 rows of queue `token`\n"
        "  expected: at most the 3 rows that it holds\n"
        "  got:      8 rows at buf = 3\n"
        "  hint:     guard `chunk` with `buf >= ...`, or take `min(..., buf)` rows"
    )


def test_two_internal_events_at_once() -> None:
    made = program(
        [
            event("go", do={"c": 1}),
            event("a", internal=True, when="c == 1", do={"c": 0}),
            event("b", internal=True, when="c >= 1", do={"c": 0}),
        ],
        counters={"c": 0},
    )
    assert go(made) == (
        "CAD2007: internal events `a`, `b` are enabled at once\n"
        "  expected: at most one, so that what follows is certain\n"
        "  got:      c = 1\n"
        "  hint:     add a condition to `when` of `b` that excludes the other"
    )


@pytest.mark.parametrize(
    ("effect", "got"),
    [
        ("3 - c", "the same configuration again after 2 of them, at c = 2"),
        ("c + 1", "no rest after 10001 of them, at c = 10001"),
    ],
)
def test_internal_events_without_end(effect: str, got: str) -> None:
    made = program(
        [event("go", do={"c": 1}), event("again", internal=True, when="c > 0", do={"c": effect})], counters={"c": 0}
    )
    assert go(made) == (
        "CAD2008: internal event `again` goes on for ever\n"
        "  expected: internal events to come to rest\n"
        f"  got:      {got}\n"
        "  hint:     let `do` of `again` change what its `when` looks at"
    )


def test_a_refused_event_says_so_before_anything_happens() -> None:
    made = minicpm()
    before = start(made)
    with pytest.raises(SessionError):
        fire(made, before, "chunk", {})
    assert before == start(made)
