"""The search, its projection and its demand against a naive search on random programs."""

import pytest
from hypothesis import HealthCheck, assume, event, given, settings

from cadence_runtime.errors import TimelineError
from cadence_runtime.format.tape import ITEM_BYTES
from cadence_runtime.host.program import ABSENT, Program, Step
from cadence_runtime.host.step import compiled, push
from cadencec.timeline import StageKey, Timeline, build
from tests.host.programs import growing_cache, minicpm
from tests.timeline.naive import ContradictionError, search
from tests.timeline.strategies import programs

UNBOUNDED = {"CAD2101", "CAD2102"}
SLOW = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def starts_at_rest(program: Program) -> bool:
    ready = compiled(program)
    try:
        return ready.next_internal(ready.start) is None
    except TimelineError:
        return False


def pushes_of(timeline: Timeline) -> dict[object, object]:
    program, at = timeline.program, timeline.configurations
    return {(at[t.source], program.events[t.event].name, t.choices): at[t.target] for t in timeline.transitions}


@SLOW
@given(programs())
def test_search_agrees_with_a_naive_one(program: Program) -> None:
    assume(starts_at_rest(program))
    try:
        naive = search(program)
    except ContradictionError:
        with pytest.raises(TimelineError):
            build(program, 2000)
        event("contradiction")
        return
    try:
        timeline = build(program, 2000)
    except TimelineError as error:
        assert error.code in UNBOUNDED and naive is None
        event("unbounded")
        return
    event("finite")
    if naive is None:
        return
    pushes, runs = naive
    assert pushes_of(timeline) == pushes
    assert {(key.stage, key.args) for key in timeline.keys} == runs
    assert len(timeline.transitions) == len(pushes)


@SLOW
@given(programs())
def test_keys_and_demand_are_those_of_the_pushes(program: Program) -> None:
    """Each push sees its own keys, in order, and no region is ever longer than its demand."""
    assume(starts_at_rest(program))
    try:
        timeline = build(program, 300)
    except TimelineError:
        return
    longest = [max(region.start, 0) for region in program.regions]
    for taken in timeline.transitions:
        made = program.events[taken.event]
        choices = dict(zip((choice.name for choice in made.choices), taken.choices, strict=True))
        steps = push(program, timeline.configurations[taken.source], made.name, choices)
        assert steps[-1].after == timeline.configurations[taken.target]
        assert seen_by(steps) == [timeline.keys[i] for i in taken.keys]
        for step in steps:
            longest = [max(pair) for pair in zip(longest, step.after.lengths, strict=True)]
    for region, demand, length in zip(program.regions, timeline.demand, longest, strict=True):
        assert demand.length >= length
        assert demand.size_bytes == 4 * demand.length * ITEM_BYTES["float32"]
        if not any(e.reset for e in program.events):
            assert demand.length == length, region.name
    assert len(set(timeline.keys)) == len(timeline.keys)


def seen_by(steps: tuple[Step, ...]) -> list[StageKey]:
    """What the stages of a push see; the later indices of a repeat only where they see something else."""
    found: list[StageKey] = []
    for run in (run for step in steps for run in step.runs):
        key = StageKey(run.stage, run.args, run.lengths, run.inputs)
        if not run.index or key != found[-1]:
            found.append(key)
    return found


def test_the_live_rule_has_the_numbers_that_were_measured() -> None:
    timeline = build(minicpm())
    assert (len(timeline.configurations), len(timeline.rest)) == (1265, 56)
    assert [len(timeline.keys_of(stage)) for stage in ("encode", "denoise", "vocode")] == [1122, 993, 52]
    shapes = {(key.lengths, key.args) for key in timeline.keys_of("denoise")}
    assert len(shapes) == 993
    assert sum(lengths == (300,) for lengths, _ in shapes) == 23
    assert timeline.findings == ()


def test_demand_of_the_live_rule_counts_every_index() -> None:
    demand = {each.region: each for each in build(minicpm()).demand}
    assert demand["estimator.att"].length == 400
    assert demand["estimator.att"].size_bytes == 5 * 16 * 2 * 8 * 400 * 128 * 4
    assert demand["hift.speech"].size_bytes == 3840 * 4


def test_demand_counts_what_a_stage_leaves_just_before_a_reset() -> None:
    from tests.host.programs import event, program, region, stage

    made = program(
        [event("flush", advance=("frame", 7), run=["s"], reset=True)],
        regions=[region("r", "grow", start=ABSENT)],
        stages=[stage("s", ["r"])],
    )
    timeline = build(made)
    assert len(timeline.configurations) == 1
    assert timeline.demand[0].length == 7


def test_a_growing_cache_has_a_key_for_each_length_before_its_horizon() -> None:
    timeline = build(growing_cache())
    assert [key.lengths for key in timeline.keys] == [(0,), (1,), (2,), (3,), (4,), (5,)]
    assert timeline.demand[0].length == 6


def test_two_builds_are_equal_and_start_first() -> None:
    first, second = build(minicpm()), build(minicpm())
    assert first == second
    assert first.configurations[0].counters == (3, 0)


@pytest.mark.soak
def test_a_million_configurations_in_a_minute() -> None:
    import time

    from tests.host.programs import event, program

    counters = dict.fromkeys("abc", 0)
    made = program([event(c, do={c: f"({c} + 1) % 100"}) for c in counters], counters=counters)
    began = time.perf_counter()
    timeline = build(made, limit=2_000_000)
    assert len(timeline.configurations) == 1_000_000
    assert time.perf_counter() - began < 60
