"""The verb `bench` without `--live`: what it measures, what it holds equal, and what ends it.

Most comparisons here run all sides in this process. Those by the command line have processes of their own.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cadence_runtime.check import open_plan
from cadence_runtime.errors import CadenceError, DeviceError
from cadencec.bench.agenda import rows
from cadencec.bench.bench import bench_file, render, to_json
from cadencec.bench.child import FIRST, TALK, Answers, serve
from cadencec.bench.found import Comparison
from cadencec.bench.process import Process
from cadencec.bench.request import Request
from cadencec.bench.rows import write_rows
from cadencec.bench.side import REPLAY, STOCK, Side
from cadencec.bench.wire import from_line, raise_told, to_line
from cadencec.cli.app import app
from cadencec.plan.turns import Timeline
from tests.bench.conftest import Case, case
from tests.cli.conftest import ROOT, error_of
from tests.cuda.test_load import PLAN as CUDA_PLAN
from tests.models.packages import needs
from tests.models.test_mimi import SMALL
from tests.plan.models import IMPORTS
from tests.verify.test_oracle import BODY, LOOP

NUMERICS = "\nnumerics: {threads: 1}\n"
STOCK_LOOP = LOOP.replace('assert variant == "plain"\n', "self.variant = variant\n").replace(
    '[{"y": y}]', '[{"y": y + (self.variant == "fast")}]'
)
"""Its quick variant has other bits, as one that is compiled may."""


class Here:
    """A side without a process of its own."""

    def __init__(self, side: Side) -> None:
        self.side, self._answers = side, Answers(side, time.time())

    def ask(self, request: str) -> dict[str, Any]:
        return from_line(to_line(self._answers.to(request)))

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.end()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cadencec.bench.compare.Process", Here)


def compared(made: Case, **asked: Any) -> Comparison:
    request = Request(str(made.plan_file), str(made.spec_file), **{"seconds": 2, "rounds": 2, "starts": 1, **asked})
    found = bench_file(request, lambda phase, done, total: None)
    assert isinstance(found, Comparison)
    return found


def looped(folder: Path, good: str = "", bad: str = "", body: str = BODY + NUMERICS) -> Case:
    return case(folder, body, STOCK_LOOP.replace(good, bad) if good else STOCK_LOOP)


@pytest.mark.usefixtures("here")
def test_every_variant_runs_with_the_numerics_and_the_first_also_without(tmp_path: Path) -> None:
    found = compared(looped(tmp_path))
    assert [str(side.name) for side in found.stock] == ["fast", "plain", "fast, no numerics"]
    assert (found.loop, str(found.plainest.name)) == ("the released loop", "plain")
    assert (found.exit_code, found.difference) == (0, None)
    assert found.turns == 3 and found.session_s >= 2
    for side in (found.replay, *found.stock):
        assert len(side.session_s) == len(side.open_s) == len(side.steady["frame"].rounds_s) == 2
        assert all(time_s > 0 for time_s in (*side.session_s, *side.first_output_s, side.steady["frame"].median_s))
        assert sum(side.steady["frame"].rounds_s) < sum(side.session_s)


@pytest.mark.usefixtures("here")
def test_a_comparison_as_text_and_as_json(tmp_path: Path) -> None:
    found = compared(looped(tmp_path))
    lines = render(replace(found, device="abacus", versions={"cadencec": "1", "torch": "2"}, date="d")).splitlines()
    frames = found.pushes - found.turns
    assert lines[0] == f"model, on abacus: {frames} outputs bit-identical to the released loop (`plain`)"
    assert lines[2:4] == ["cadencec 1, torch 2; d", "numerics: threads 1"]
    assert sum(line.startswith("  fast, no numerics ") for line in lines) == 3  # steady, whole sessions, memory
    assert render(replace(found, random_weights=True)).startswith("model, random weights, on ")
    schema, body = to_json(found)
    assert schema == "cadencec.bench/2"
    assert (body["equal"], body["difference"], body["compared_with"]) == (True, None, "plain")
    assert [(side["variant"], side["numerics"]) for side in body["stock"]] == [
        ("fast", True),
        ("plain", True),
        ("fast", False),
    ]
    times = body["stock"][0]["times_the_replay"]["steady"]["frame"]
    assert times["lowest"] <= times["median"] <= times["highest"]
    assert body["plan"]["steady"] == {"frame": {"launches": 1, "nodes": None}}
    assert body["plan"]["size_bytes"] == (tmp_path / "model.cpu.plan").stat().st_size
    assert json.loads(json.dumps(body)) == body


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("y + (", "y + 1e-3 * (self.count == 7) + (", "push 7 (`frame`), output `y`: "),
        ("return [{", "return [] if self.count == 7 else [{", "push 7 (`frame`): outputs on one side only"),
        ("variant = variant", "variant = 'fast' if hasattr(self, 'held') else variant", "plain had other bits"),
    ],
)
def test_other_bits_are_exit_code_3(tmp_path: Path, good: str, bad: str, said: str) -> None:
    found = compared(looped(tmp_path, good, bad))
    assert found.exit_code == 3
    assert found.difference is not None and found.difference.startswith(said)
    first, second, *_ = render(found).splitlines()
    assert first.endswith(": differs from the released loop (`plain`)")
    assert second == f"  {found.difference}"


@pytest.mark.usefixtures("here")
def test_without_a_released_loop_the_stages_of_the_adapter_are_stock(pipeline_case: Case, talk_case: Case) -> None:
    for made, event in ((pipeline_case, "unit"), (talk_case, "speak")):
        found = compared(made, starts=0)
        assert (found.loop, [str(side.name) for side in found.stock]) == ("the model's own stages", ["stages"])
        assert found.difference is None and found.outputs > 0
        assert event in found.replay.steady and found.stock[0].first_output_s == ()


@pytest.mark.usefixtures("here")
def test_stages_are_stock_where_they_are_asked_for_and_other_names_of_the_loop_are_told(tmp_path: Path) -> None:
    made = looped(tmp_path, '[{"y":', '[{"z":')
    with pytest.raises(CadenceError, match="CAD3426: the released loop has other names for the outputs of `frame`"):
        compared(made)
    found = compared(made, stages=True)
    assert (found.loop, found.exit_code) == ("the model's own stages", 0)


def bench(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["bench", *map(str, arguments), "--json"])


@needs("silero-vad", "silero")
def test_silero_vad_by_the_command_line(tmp_path: Path) -> None:
    plan, spec = tmp_path / "silero.cpu.plan", ROOT / "specs" / "silero_vad.yaml"
    assert CliRunner().invoke(app, ["compile", str(spec), "-o", str(plan)]).exit_code == 0
    done = bench(plan, "--spec", spec, "--seconds", 4, "--rounds", 2)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["schema"], found["equal"], found["random_weights"]) == ("cadencec.bench/2", True, False)
    assert [(side["variant"], side["numerics"]) for side in found["stock"]] == [("released", True), ("released", False)]
    for side in (found["replay"], *found["stock"]):
        assert len(side["steady"]["chunk"]["rounds_s"]) == 2
        assert 0.1 < side["first_output_s"][0] < 300
        assert side["memory"]["host_bytes"] > 50e6 and side["memory"]["device_bytes"] is None


@needs("moshi", "moshi", "0.2.13")
def test_a_reduced_model_by_the_command_line(tmp_path: Path) -> None:
    plan, spec = tmp_path / "mimi.cpu.plan", ROOT / "specs" / "mimi.yaml"
    sizes = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    assert CliRunner().invoke(app, ["compile", str(spec), "-o", str(plan), *sizes]).exit_code == 0
    assert error_of(bench(plan, "--spec", spec))["code"] == "CAD6901"
    done = bench(plan, "--spec", spec, *sizes, "--seconds", 1, "--rounds", 1, "--starts", 0, "--turns", 1)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["equal"], found["compared_with"], found["random_weights"]) == (True, "plain", True)
    assert [side["variant"] for side in found["stock"]] == ["released", "plain", "released"]


def side_of(made: Case, kind: str, folder: Path) -> Side:
    return Side(kind, "cpu", str(made.plan_file), str(made.spec_file), str(folder), 0)


def test_a_process_that_ends_by_itself(tmp_path: Path) -> None:
    made = case(tmp_path, BODY, LOOP)
    dying = '    import os, sys\n    print("no luck", file=sys.stderr, flush=True)\n    os.kill(os.getpid(), 9)\n'
    (tmp_path / "model.py").write_text(IMPORTS + LOOP.replace("    return Loop()\n", dying))
    with Process(side_of(made, STOCK, tmp_path)) as process, pytest.raises(DeviceError) as caught:
        process.ask("begin")
    assert str(caught.value) == (
        "CAD8030: the process of `stock-0-without-numerics` ended before it was told to\n"
        "  expected: an answer to `begin`\n"
        "  got:      SIGKILL; its last words: no luck\n"
        "  hint:     free memory of the device and the host, or find out what the model does on its own"
    )


def test_an_error_with_a_code_comes_through_a_process_as_it_is(tmp_path: Path) -> None:
    made = case(tmp_path, BODY, LOOP)
    made.plan_file.write_bytes(b"no plan")
    out = StringIO()
    serve(Answers(side_of(made, REPLAY, tmp_path), 0.0), [to_line({"do": "begin"}), to_line({"do": "memory"})], out)
    (line,) = out.getvalue().splitlines()
    with pytest.raises(CadenceError) as caught:
        raise_told(from_line(line))
    assert (caught.value.code, caught.value.at) == ("CAD5001", f"{made.plan_file}, byte 0")


CHILD = """
import json
import sys
from cadence_runtime.cuda import driver as door
from tests.cuda.fake_driver import FakeDriver
layouts = {name: tuple(map(tuple, parts)) for name, parts in json.loads(sys.argv[3]).items()}
door.system_driver = lambda: FakeDriver(layouts=layouts)
from cadencec.bench.child import main
main()
assert "torch" not in sys.modules, "the replay of a CUDA plan imports torch"
print("without torch", file=sys.stderr)
"""


def test_the_replay_of_a_cuda_plan_is_measured_without_torch(tmp_path: Path) -> None:
    plan = open_plan(str(CUDA_PLAN))
    timeline = Timeline(plan)
    node, pushes = 0, []
    for _ in range(4):
        pushes.append(next(push for push in timeline.leaving(node) if timeline.runs(push)))
        node = pushes[-1].transition.target
    for name, own in ((TALK, pushes), (FIRST, pushes[:1])):
        write_rows(tmp_path / name, rows(plan, own, 0))
    assert plan.cuda is not None
    layouts = {
        kernel.name: list(zip(kernel.param_offsets, kernel.param_sizes, strict=True)) for kernel in plan.cuda.kernels
    }
    side = Side(REPLAY, "cuda", str(CUDA_PLAN), "no spec is read", str(tmp_path), 0)
    asked = "".join(to_line({"do": what}) + "\n" for what in ("begin", "first", "session", "save", "memory"))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, side.to_json(), repr(time.time()), json.dumps(layouts)],
        input=asked,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "without torch"), done.stderr
    begun, first, session, saved, memory = map(json.loads, done.stdout.splitlines())
    assert begun == {"device": "fake", "driver": "13.0"}
    assert 0 < first["first_output_s"] < 300
    assert len(session["times_s"]) == 4 and session["digest"] == saved["digest"]
    assert memory["device_bytes"] == 0 and memory["host_bytes"] > 0
