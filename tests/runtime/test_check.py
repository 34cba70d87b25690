"""Would a plan load here: every reason at once, and in its words."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cadence_runtime import check, load
from cadence_runtime.check import environment_reasons, open_plan, target_reasons
from cadence_runtime.cpu.environment import environment
from cadence_runtime.errors import ErrorList, IncompatibleError, PlanError
from cadence_runtime.weights import open_weights
from cadencec.compile.job import Request, compile_file
from tests.cases.driver import spec_path
from tests.runtime.conftest import PlanOf


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A plan and the weights file beside it."""
    folder = tmp_path_factory.mktemp("released")
    written = compile_file(Request(str(spec_path("01")), str(folder / "a.cpu.plan")), lambda *_: None).written
    assert written.weights_file is not None
    return written.plan_file, written.weights_file


def test_a_plan_of_this_machine_is_ok(released: tuple[Path, Path]) -> None:
    report = check(released[0], full=True)
    assert (report.verdict, report.reasons, report.remarks) == ("ok", (), ())


def test_another_target_is_named(plan_of: PlanOf) -> None:
    (reason,) = check(plan_of("01"), target="cuda").reasons
    assert str(reason) == (
        "CAD6001: the plan is for another target\n"
        "  expected: `cuda`\n"
        "  got:      `cpu`\n"
        "  hint:     compile the spec for this target"
    )


def test_every_difference_of_environments_is_a_reason(plan_of: PlanOf) -> None:
    plan = open_plan(plan_of("01"))
    here = dict(environment())
    other = tuple(sorted({**here, "torch": "1.0", "cpu.capability": "NONE"}.items()))
    moved = replace(plan, provenance=replace(plan.provenance, environment=other))
    found = [str(reason) for reason in target_reasons(moved, None)]
    hint = "  hint:     compile the plan on a machine like this one: another environment gives other bits"
    assert found == [
        "CAD6002: `cpu.capability` differs from where the plan was compiled\n"
        f"  expected: NONE\n  got:      {here['cpu.capability']}\n{hint}",
        "CAD6002: `torch` differs from where the plan was compiled\n"
        f"  expected: 1.0\n  got:      {here['torch']}\n{hint}",
    ]


def test_a_variable_that_only_one_side_has_counts() -> None:
    assert [error.got for error in environment_reasons({"a": "1"}, {})] == ["not set"]
    assert [error.expected for error in environment_reasons({}, {"a": "1"})] == ["not set"]


def test_a_weights_file_that_is_not_there(released: tuple[Path, Path], tmp_path: Path) -> None:
    missing = tmp_path / "no.safetensors"
    (reason,) = check(released[0], weights=str(missing)).reasons
    assert str(reason) == (
        "CAD6003: the weights file cannot be read\n"
        "  expected: the safetensors file that the plan was compiled with\n"
        "  got:      no such file or directory\n"
        f"  at:       {missing}\n"
        "  hint:     put it beside the plan, or say where it is: `weights=`, `--weights`"
    )
    with pytest.raises(IncompatibleError, match="CAD6003"):
        load(released[0], weights=missing)


def test_weights_of_another_release_are_found_by_their_digest(released: tuple[Path, Path], tmp_path: Path) -> None:
    changed = bytearray(released[1].read_bytes())
    changed[-1] ^= 1
    other = tmp_path / "other.safetensors"
    other.write_bytes(changed)
    assert check(released[0], weights=str(other)).verdict == "ok"  # the header alone is that of the release
    (reason,) = check(released[0], weights=str(other), full=True).reasons
    assert isinstance(reason, IncompatibleError)
    assert reason.code == "CAD6004"
    assert reason.what.endswith("is not the one that the plan was compiled with")
    assert str(reason.got).startswith("sha256 ")


def rebuilt(spec: Path, name: str) -> tuple[Path, Path]:
    """Compile a spec and return the plan and its weights file."""
    written = compile_file(Request(str(spec), str(spec.with_name(name))), lambda *_: None).written
    assert written.weights_file is not None
    return written.plan_file, written.weights_file


def test_weights_of_another_build_are_found_by_the_header(tmp_path: Path) -> None:
    source = spec_path("01").with_suffix(".py").read_text()
    text = spec_path("01").read_text().replace("./01_growing_kv_cat.py", "./model.py").replace("6 events", "1 events")
    (tmp_path / "model.yaml").write_text(text)
    (tmp_path / "model.py").write_text(source)
    one, weights = rebuilt(tmp_path / "model.yaml", "one.cpu.plan")
    (tmp_path / "model.py").write_text(source.replace("seed(101)", "seed(102)"))
    _, others = rebuilt(tmp_path / "model.yaml", "other.cpu.plan")
    assert weights.name != others.name
    with load(one, weights=weights):
        pass
    others.replace(weights)
    found = check(one)
    assert found.verdict == "incompatible" and {reason.code for reason in found.reasons} == {"CAD6004"}
    with pytest.raises(ErrorList, match="CAD6004"):
        load(one)


def test_a_weights_file_that_is_cut_short_while_it_is_read(released: tuple[Path, Path], tmp_path: Path) -> None:
    copy = tmp_path / "w.safetensors"
    copy.write_bytes(released[1].read_bytes())
    plan = open_plan(released[0])
    with open_weights(plan, released[0], copy) as file:
        os.truncate(copy, copy.stat().st_size - 4)
        (reason,) = file.faults(plan, digests=True)
        assert str(reason) == (
            "CAD6003: the weights file cannot be read\n"
            "  expected: the safetensors file that the plan was compiled with\n"
            "  got:      it was cut short while it was read\n"
            f"  at:       {copy}\n"
            "  hint:     put it beside the plan, or say where it is: `weights=`, `--weights`"
        )
        with pytest.raises(IncompatibleError, match="CAD6003"):
            file.sha256()


def test_a_weights_path_that_is_none(released: tuple[Path, Path]) -> None:
    (reason,) = check(released[0], weights="a\0b").reasons
    assert (reason.code, reason.at) == ("CAD6003", "a?b")


def test_a_cpu_plan_says_nothing_about_graphs(plan_of: PlanOf) -> None:
    from cadence_runtime.cuda.player import CudaPlayer
    from tests.cuda.fake_driver import FakeDriver

    with pytest.raises(PlanError) as caught:
        CudaPlayer(open_plan(plan_of("01")), FakeDriver(), lambda _: ())
    assert str(caught.value) == "CAD5601: a plan for cuda has no graphs\n  expected: a cuda part\n  got:      none"


def test_a_fresh_process_has_neither_the_compiler_nor_the_model(plan_of: PlanOf) -> None:
    code = (
        "import sys\nimport torch\nfrom cadence_runtime import load\n"
        f"with load({str(plan_of('01'))!r}) as plan, plan.session() as session:\n"
        "    print(session.push('frame', x=torch.ones(1, 1, 16))['y'].sum().item())\n"
        "print(sorted({'cadencec', 'pydantic', 'networkx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    with load(plan_of("01")) as plan, plan.session() as session:
        expected = session.push("frame", x=torch.ones(1, 1, 16))["y"].sum().item()
    assert done.stdout.splitlines() == [str(expected), "[]"]


def test_an_op_that_no_player_runs_is_found_before_anything_is_allocated(plan_of: PlanOf) -> None:
    plan = open_plan(plan_of("01"))
    strange = tuple(
        replace(tape, ops=tuple(replace(op, name="aten::from_file") for op in tape.ops)) for tape in plan.tapes
    )
    (reason,) = target_reasons(replace(plan, tapes=strange), None)
    assert str(reason) == (
        "CAD6005: the plan holds an op that no CPU player runs, `aten::from_file`\n"
        "  expected: aten ops on plain tensors and numbers\n"
        "  got:      an op that reaches beyond its operands\n"
        "  at:       stage `step`"
    )
