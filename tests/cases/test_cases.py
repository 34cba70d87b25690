"""The sixteen hazard cases: each replays bit for bit in a fresh process, or is refused by name and line."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cadence_runtime import load
from cadence_runtime.errors import CadenceError, SessionError
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.writer import write_plan
from cadencec.plan.compile import compile_spec
from cadencec.spec.load import load_spec, parse_spec
from cadencec.targets.cpu.lower import lower
from cadencec.verify import verify
from tests.cases.driver import CASES, STEP_KEYS, eager, module_of, pushes, spec_path

REPLAYED = sorted(STEP_KEYS)
REFUSED = {
    "04": ["CAD3503", "`pos`", "int, changed 0 -> 1", "04_python_int_position.py:34", "hint"],
    "07": [
        "undeclared state: `mean`",
        "undeclared state: `last`",
        "`aten::mul_.Tensor`",
        "`aten::copy_`",
        "07_inplace_buffer_nonzero_init.py:32",
        "07_inplace_buffer_nonzero_init.py:34",
    ],
    "17": ["aten::_local_scalar_dense", "17_data_dependent_branch.py:27: if x.abs().mean() > 0.5:", "torch.where"],
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Plan]]:
    """Compile every replay case, and leave beside each plan what its model gives for the case's inputs."""
    folder = tmp_path_factory.mktemp("cases")
    found = {}
    for number in REPLAYED:
        plan = compile_spec(load_spec(spec_path(number))).plan
        write_plan(folder / f"{number}.plan", plan)
        played = eager(number)
        outputs = iter(played.outputs)
        rows = [(p.event, p.inputs, p.session, [] if p.event == "turn" else next(outputs)) for p in pushes(number)]
        seed = module_of(number).META.get("seed", 0)
        torch.save({"seed": seed, "pushes": rows, "states": played.states}, folder / f"{number}.pt")
        found[number] = (folder / f"{number}.plan", plan)
    return found


def test_every_case_is_replayed_or_refused() -> None:
    assert sorted(CASES) == sorted([*REPLAYED, *REFUSED])
    for number in CASES:
        expected = module_of(number).META["expect"]
        assert expected in ({"error"} if number in REFUSED else {"replay", "either"})


def test_a_fresh_process_replays_every_case_bit_for_bit(plans: dict[str, tuple[Path, Plan]]) -> None:
    folder = next(iter(plans.values()))[0].parent
    script = Path(__file__).with_name("replay.py")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(script), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.stdout.splitlines() == [*(f"{number} ok" for number in REPLAYED), "modules:"], done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("number", REPLAYED)
def test_there_is_one_capture_a_key(plans: dict[str, tuple[Path, Plan]], number: str) -> None:
    plan = plans[number][1]
    assert sum(capture.key.stage == "step" for capture in plan.captures) == STEP_KEYS[number]


@pytest.mark.parametrize("number", REPLAYED)
def test_random_walks_of_two_sessions_equal_the_stock_model(plans: dict[str, tuple[Path, Plan]], number: str) -> None:
    report = verify(plans[number][0], load_spec(spec_path(number)), events=60, walks=2)
    assert report.differences == ()
    assert report.events >= 16
    assert report.outputs > 0


@pytest.mark.parametrize("number", REPLAYED)
def test_slots_are_aligned_and_apart(plans: dict[str, tuple[Path, Plan]], number: str) -> None:
    plan = plans[number][1]
    slots = sorted((leaf.slot_offset, leaf.slot_offset + leaf.slot_bytes) for leaf in plan.leaves)
    assert all(lower % 256 == 0 for lower, _ in slots)
    assert all(upper <= lower for (_, upper), (lower, _) in itertools.pairwise(slots))


@pytest.mark.parametrize("number", REPLAYED)
def test_scratch_is_at_most_a_hundredth_above_its_lower_bound(plans: dict[str, tuple[Path, Plan]], number: str) -> None:
    for tape in plans[number][1].tapes:
        packing = lower(tape).packing
        assert packing.height_bytes <= 1.01 * packing.lower_bound_bytes


@pytest.mark.parametrize("number", sorted(REFUSED))
def test_what_cannot_be_replayed_is_refused_by_name_and_line(number: str) -> None:
    with pytest.raises(CadenceError) as caught:
        compile_spec(load_spec(spec_path(number)))
    missing = [words for words in REFUSED[number] if words not in str(caught.value)]
    assert missing == [], str(caught.value)
    assert [word for word in module_of(number).META["names"] if word not in str(caught.value)] == []


def test_the_seventh_step_of_case_01_is_refused_by_region(plans: dict[str, tuple[Path, Plan]]) -> None:
    with load(plans["01"][0]) as plan, plan.session() as session:
        for _ in range(6):
            session.push("frame", x=torch.zeros(1, 1, 16))
        with pytest.raises(SessionError, match="a 7th `frame` is refused by region `kv`"):
            session.push("frame", x=torch.zeros(1, 1, 16))
        session.push("turn")
        session.push("frame", x=torch.zeros(1, 1, 16))


def test_a_length_that_case_25_does_not_declare_is_refused(plans: dict[str, tuple[Path, Plan]]) -> None:
    with load(plans["25"][0]) as plan, plan.session() as session:
        session.push("first", tok=torch.zeros(1, 8, dtype=torch.int64))
        with pytest.raises(
            SessionError, match="`n` of event `last` is out of range\n  expected: 1 to 3\n  got:      4"
        ):
            session.push("last", tok=torch.zeros(1, 4, dtype=torch.int64))


def test_case_04_replays_once_its_counter_is_declared() -> None:
    text = spec_path("04").read_text()
    text = text.replace("regions:", "counters: {pos: {start: 0, leaf: pos}}\nregions:")
    text = text.replace("frame: {inputs", "frame: {when: pos < 8, inputs").replace(
        "run: [step]}", "run: [step], do: {pos: pos + 1}}"
    )
    spec = parse_spec(text, str(spec_path("04")))
    plan = compile_spec(spec).plan
    assert sum(capture.key.stage == "step" for capture in plan.captures) == 8
    assert [plan.forms[node.forms[-1]].text for node in plan.nodes] == [str(position) for position in range(9)]
