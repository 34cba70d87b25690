"""Levers: each is the true size of the edited spec."""

from dataclasses import replace
from fractions import Fraction

from cadence_runtime.host.program import Horizon
from cadencec.timeline import build
from cadencec.timeline.levers import Size, horizons, levers, size_of
from tests.host.programs import event, growing_cache, minicpm, program, region, stage


def test_levers_of_the_live_rule() -> None:
    timeline = build(minicpm())
    now = size_of(timeline)
    assert now.keys == 1122 + 993 + 52
    found = {lever.edit: (lever.size.keys, lever.exact) for lever in levers(timeline)}
    assert found == {
        "choose: {n: 25..25} in `first`, `end`": (13, True),
        "when: ... and n % 5 == 0 in `first`, `end`": (144, True),
        "retain: {window: 350} in `estimator.att`, `conformer.att`": (1130, False),
    }


def test_half_a_horizon() -> None:
    (lever,) = levers(build(growing_cache(6)))
    assert (lever.edit, lever.size, lever.exact) == ("horizon: 3 events", Size(3, 3 * 16), True)


def test_a_spec_with_nothing_to_save_has_no_levers() -> None:
    made = program([event("go", run=["s"])], stages=[stage("s", [])])
    assert levers(build(made)) == ()


def test_horizons_of_an_unbounded_spec() -> None:
    made = program(
        [event("chunk", advance=("frame", 25), run=["s"])],
        regions=[region("kv", "grow", start=4)],
        stages=[stage("s", ["kv"])],
    )
    found = [(lever.edit, lever.size) for lever in horizons(made)]
    assert found == [(f"horizon: {seconds} s", Size(2 * seconds, (4 + 50 * seconds) * 16)) for seconds in (10, 30, 60)]
    bounded = replace(made, horizon=Horizon("seconds", Fraction(10)))
    assert size_of(build(bounded)) == found[0][1]
