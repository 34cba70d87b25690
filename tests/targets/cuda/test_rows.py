"""A stage that repeats is one graph for all its indices; what is theirs is copied in and out."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.check import open_plan
from cadence_runtime.cuda.player import CudaPlayer
from cadence_runtime.format.cuda import Move
from cadence_runtime.format.file import read_version
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.source import opened
from cadence_runtime.session import LoadedPlan
from cadencec.arena.planner import ALIGNMENT
from cadencec.compile.job import Request, compile_file
from cadencec.targets.cuda.nameless import Use
from cadencec.targets.cuda.placement import SlotName
from cadencec.targets.cuda.rows import Member, moves, rows_of
from tests.cuda.fake_driver import FakeDriver
from tests.targets.cuda.test_target import Recorder, backend

__all__ = ["backend"]

SPEC = Path(__file__).parents[2] / "gpu" / "euler.yaml"
SECTION = 1 << 15


def use(name: str, read: int, written: int = 0, lower: int = 0) -> Use:
    return Use(SlotName("leaf", name), lower, read, written)


def test_what_stands_elsewhere_for_each_capture_gets_a_place() -> None:
    one = Member((use("w", 64), use("att[0]", 300, 400), use("#2", 8)), (0, 1024, 512))
    other = Member((use("w", 64), use("att[1]", 300, 400), use("#2", 8)), (0, 1536, 768))
    rows = rows_of([one, other])
    assert rows.offsets == {2: 0, 1: 256}
    assert rows.size_bytes == 256 + 512
    before, after = moves(other, rows, SECTION)
    assert before == (Move(SECTION, 768, 8), Move(SECTION + 256, 1536, 300))
    assert after == (Move(1536, SECTION + 256, 400),)


def test_a_place_that_is_not_aligned_is_copied_to_one_that_is() -> None:
    rows = rows_of([Member((use("#0", 4), use("w", 4)), (12, 256))])
    assert rows.offsets == {0: 0}


def test_neighbours_are_copied_as_one() -> None:
    one, other = (
        Member((use("#0", 8), use("#1", 300), use("#2", 4)), places) for places in ((0, 256, 4096), (1024, 1280, 8192))
    )
    rows = rows_of([one, other])
    assert moves(other, rows, SECTION)[0] == (Move(SECTION, 1024, 556), Move(SECTION + 768, 8192, 4))


SIZES = st.lists(st.tuples(st.integers(0, 700), st.integers(0, 700)), min_size=1, max_size=6)


@given(SIZES, st.integers(1, 4), st.integers(0, 99))
def test_every_byte_arrives_and_comes_back(sizes: list[tuple[int, int]], captures: int, seed: int) -> None:
    random = Random(seed)  # noqa: S311
    uses = tuple(use(str(number), *pair) for number, pair in enumerate(sizes))
    spots = [ALIGNMENT * 4 * spot for spot in range(len(sizes) * captures)]
    random.shuffle(spots)
    members = [Member(uses, tuple(spots[i * len(sizes) : (i + 1) * len(sizes)])) for i in range(captures)]
    rows = rows_of(members)
    for member in members:
        memory = bytearray(random.randbytes(SECTION + rows.size_bytes + ALIGNMENT))
        kept, (before, after) = bytes(memory), moves(member, rows, SECTION)
        run(memory, before)
        for number, offset in rows.offsets.items():
            read, place = uses[number].read_bytes, member.places[number]
            assert memory[SECTION + offset : SECTION + offset + read] == kept[place : place + read]
        memory[SECTION:] = random.randbytes(len(memory) - SECTION)
        run(memory, after)
        for number, offset in rows.offsets.items():
            written, place = uses[number].written_bytes, member.places[number]
            assert memory[place : place + written] == memory[SECTION + offset : SECTION + offset + written]


def run(memory: bytearray, found: tuple[Move, ...]) -> None:
    for move in found:
        memory[move.destination : move.destination + move.size_bytes] = memory[
            move.source : move.source + move.size_bytes
        ]


@pytest.fixture
def compiled(tmp_path: Path, backend: Callable[[Recorder], None]) -> tuple[Plan, Recorder, Path]:
    recorder, plan = Recorder(), tmp_path / "euler.plan"
    backend(recorder)
    cache = str(tmp_path / "cache")
    compile_file(Request(str(SPEC), str(plan), target="cuda", embed_weights=True, cache=cache), lambda *_: None)
    return open_plan(plan), recorder, plan


def test_an_index_costs_copies_and_no_capture(compiled: tuple[Plan, Recorder, Path]) -> None:
    plan, recorder, path = compiled
    part = plan.cuda
    assert part is not None
    stages = [capture.key.stage for capture in plan.captures]
    assert (stages.count("refine"), stages.count("encode"), stages.count("emit")) == (12, 1, 1)
    graphs = [part.launch(number).graph for number in range(len(stages))]
    assert len({graph for graph, stage in zip(graphs, stages, strict=True) if stage == "refine"}) == 3
    assert len(part.graphs) == recorder.count == 3 + len(set(stages)) - 1
    with opened(path) as source:
        assert read_version(source) == (1, 2)


def test_rows_go_in_and_come_back(compiled: tuple[Plan, Recorder, Path]) -> None:
    plan, _, _ = compiled
    part = plan.cuda
    assert part is not None
    base = {section.name: section.offset for section in plan.sections}
    places = {leaf.path: base["state"] + leaf.slot_offset for leaf in plan.leaves}
    for number, capture in enumerate(plan.captures):
        launch = part.launch(number)
        if capture.key.stage != "refine":
            assert launch.before == launch.after == ()
            continue
        (step,) = capture.key.args
        state = {f"kv[{step}]", f"gain[{step}]"}
        assert {places[path] for path in state} <= {move.source for move in launch.before}
        assert {move.destination for move in launch.after} == {places[path] for path in state}
        deltas = next(w for w in plan.weights if w.name == "deltas").offset + base["weights"]
        assert (deltas + 4 * step, 4) in {(move.source, move.size_bytes) for move in launch.before}


def test_a_push_copies_around_each_launch(compiled: tuple[Plan, Recorder, Path]) -> None:
    plan, _, _ = compiled
    part = plan.cuda
    assert part is not None
    layouts = {k.name: tuple(zip(k.param_offsets, k.param_sizes, strict=True)) for k in part.kernels}
    driver = FakeDriver(layouts=layouts)
    driver.open(0)
    with LoadedPlan(plan, CudaPlayer(plan, driver, lambda name: (), warm=True)) as loaded:
        session = loaded.session()
        since = len(driver.calls)
        session.push("chunk", mel=np.zeros((1, 3, 16), np.float32))
        calls = driver.calls[since:]
    numbers = [n for n, capture in enumerate(plan.captures) if capture.key.stage == "refine"][:4]
    base = part.base
    expected = [
        [
            *(("copy", base + m.destination, base + m.source, m.size_bytes) for m in part.launch(n).before),
            ("launch",),
            *(("copy", base + m.destination, base + m.source, m.size_bytes) for m in part.launch(n).after),
        ]
        for n in numbers
    ]
    seen = [call[:1] if call[0] == "launch" else call for call in calls if call[0] in ("copy", "launch")]
    rows = next(section for section in plan.sections if section.name == "rows")
    lower, upper = base + rows.offset, base + rows.offset + rows.size_bytes
    own = [c for c in seen if c[0] == "launch" or any(lower <= at < upper for at in c[1:3])]
    assert own == [("launch",), *(call for run in expected for call in run), ("launch",)]
