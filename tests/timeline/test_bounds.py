"""Growth: proven where it is certain, suspected where it is not, and never claimed of what ends."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, assume, given, settings

from cadence_runtime.errors import TimelineError
from cadence_runtime.host.program import Horizon, Program, Queue
from cadencec.timeline import build
from tests.host.programs import event, growing_cache, program, region, stage
from tests.timeline.naive import ContradictionError, search
from tests.timeline.strategies import EFFECTS, ENDLESS, programs


def error(made: Program, limit: int = 3000) -> TimelineError:
    with pytest.raises(TimelineError) as caught:
        build(made, limit, lambda subject: f"x.yaml:{subject}")
    return caught.value


def cache(do: dict[str, str], counters: dict[str, int], **more: object) -> Program:
    return program(
        [event("chunk", advance=("frame", 4), run=["s"], do=do), *more.pop("others", [])],  # type: ignore[misc]
        regions=[region("enc.kv", "grow", start=4)],
        stages=[stage("s", ["enc.kv"])],
        counters=counters,
        **more,  # type: ignore[arg-type]
    )


def test_a_region_that_grows_for_ever() -> None:
    assert str(error(cache({}, {}))) == (
        "CAD2101: region `enc.kv` grows 4 frames per `chunk`: 4 -> 8 -> 12\n"
        "  expected: a largest length\n"
        "  got:      a cycle that can be repeated for ever: `chunk`\n"
        "  at:       x.yaml:regions.enc.kv\n"
        "  hint:     retain: {window: ...} or horizon: 60 s"
    )


def test_a_region_that_grows_while_a_counter_goes_round() -> None:
    found = error(cache({"c": "(c + 1) % 3"}, {"c": 0}))
    assert found.what == "region `enc.kv` grows 4 frames per `chunk`: 4 -> 8 -> 12"
    assert found.got == "a cycle that can be repeated for ever: `chunk` x 3"


def test_a_region_that_grows_by_two_events() -> None:
    more = event("more", advance=("frame", 1), run=["s"], when="c == 1", do={"c": "0"})
    made = cache({"c": "1"}, {"c": 0}, others=[more])
    guarded = (made.events[0], more)
    found = error(Program(**{**fields(made), "events": guarded}))
    assert found.code == "CAD2101"


def fields(made: Program) -> dict[str, object]:
    return {name: getattr(made, name) for name in Program.__slots__}


def test_a_horizon_or_a_restart_bounds_a_region() -> None:
    assert len(build(growing_cache(6)).configurations) == 7
    timed = cache({}, {}, horizon=Horizon("seconds", Fraction(1)))
    assert build(timed).demand[0].length == 4 + 48
    restarted = program(
        [event("chunk", advance=("frame", 4), run=["s"], restart=["kv"])],
        regions=[region("kv", "grow", start=4)],
        stages=[stage("s", ["kv"])],
    )
    assert build(restarted).demand[0].length == 4


def test_a_counter_that_only_adds() -> None:
    made = program([event("push", choose={"n": (1, 3)}, do={"c": "c + 2 * n"})], counters={"c": 5})
    assert str(error(made)) == (
        "CAD2101: counter `c` moves by 2 per `push`: 5 -> 7 -> 9\n"
        "  expected: an upper bound\n"
        "  got:      a cycle that can be repeated for ever, since no guard on it stops `c`\n"
        "  at:       x.yaml:counters.c\n"
        "  hint:     bound it: guard with `c < ...`, or count round with `%`; or horizon: 60 s"
    )


@pytest.mark.parametrize(
    ("when", "do", "code"),
    [
        ("c >= 0", "c + 1", "CAD2101"),
        ("0 <= c and d == 0", "c + 1 - d", "CAD2101"),
        ("c <= 0", "c - 1", "CAD2101"),
        ("c < 5000", "c + 1", "CAD2102"),
        (None, "max(c + 1, 2)", "CAD2102"),
        (None, "c + c % 2 + 1", "CAD2102"),
        (None, "2 * c + 1", "CAD2102"),
        ("not c < 0", "c + 1", "CAD2102"),
    ],
)
def test_what_counts_as_a_proof(when: str | None, do: str, code: str) -> None:
    made = program([event("go", when=when, do={"c": do})], counters={"c": 0, "d": 0})
    if do == "2 * c + 1":
        assert error(made, 50).code == code
        return
    assert error(made).code == code


def test_a_token_buffer_that_nobody_empties() -> None:
    made = program(
        [event("unit", inputs={"token": [1, 25]}, do={"buf": "buf + 25"})],
        counters={"buf": 0},
        queues=[Queue("token", "buf", "int64", 1, ())],
    )
    assert error(made).what == "counter `buf` moves by 25 per `unit`: 0 -> 25 -> 50"


def test_a_counter_that_goes_round_is_not_suspected_before_the_limit() -> None:
    made = program([event("go", do={"c": "(c + 1) % 2900"})], counters={"c": 0})
    assert len(build(made, 3000).configurations) == 2900


def test_suspicion_names_what_grew_the_longest() -> None:
    made = program([event("go", when="c < 9000", do={"c": "c + 1", "d": "1"})], counters={"d": 0, "c": 0})
    assert str(error(made)) == (
        "CAD2102: more than 3000 configurations can be reached; counter `c` is suspected to grow without bound\n"
        "  expected: an end\n"
        "  got:      0 -> 1 -> 2 -> 3 and so on, by `go`, `go`, `go`\n"
        "  at:       x.yaml:counters.c\n"
        "  hint:     bound `c` in a guard, give a horizon, or raise the limit (`--limit`)"
    )


def test_suspicion_of_a_region_under_a_long_horizon() -> None:
    made = growing_cache(9000)
    assert str(error(made)) == (
        "CAD2102: more than 3000 configurations can be reached; region `kv` is suspected to grow without bound\n"
        "  expected: an end\n"
        "  got:      0 -> 1 -> 2 -> 3 and so on, by `step`, `step`, `step`\n"
        "  at:       x.yaml:regions.kv\n"
        "  hint:     retain: {window: ...}, a shorter horizon, or raise the limit (`--limit`)"
    )


def test_a_limit_that_wide_choices_meet() -> None:
    made = program([event("go", choose={"n": (0, 3000)}, do={"c": "n", "d": "n % 7"})], counters={"c": 9, "d": 0})
    found = error(made, 2990)
    assert found.code == "CAD2103"
    wide = program(
        [event("go", choose={"n": (0, 60), "m": (0, 49)}, do={"c": "60 - n", "d": "49 - m"})],
        counters={"c": 61, "d": 50},
    )
    assert str(error(wide, 2940)) == (
        "CAD2102: more than 2940 configurations can be reached\n"
        "  expected: an end\n"
        "  got:      `c` takes the most values, 61 of them\n"
        "  hint:     raise the limit (`--limit`), or narrow the ranges in `choose`"
    )


def test_more_choices_than_the_limit() -> None:
    made = program([event("go", choose={"n": (0, 10**9), "m": (0, 10)})])
    assert str(error(made)) == (
        "CAD2103: event `go` has 10000000000 choices\n"
        "  expected: at most 3000, since each needs shapes of its own\n"
        "  got:      10000000000\n"
        "  at:       x.yaml:events.go.choose\n"
        "  hint:     narrow the ranges in `choose`, or raise the limit (`--limit`)"
    )


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(programs(effects=(*EFFECTS, *ENDLESS)))
def test_nothing_that_ends_is_called_unbounded(made: Program) -> None:
    try:
        build(made, 500)
    except TimelineError as found:
        assume(found.code == "CAD2101")
    else:
        return
    try:
        assert search(made) is None
    except ContradictionError:
        # The program goes wrong before its search ends, which the early proof need not wait for.
        assume(False)
