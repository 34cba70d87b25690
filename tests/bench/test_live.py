"""The verb `bench --live`: what it prints, draws and refuses."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cadencec.bench.bench import to_json as versioned
from cadencec.bench.live_report import Live, render, to_json
from cadencec.bench.plot import plot
from cadencec.bench.run import Ran
from cadencec.cli.app import app
from tests.bench.conftest import Case
from tests.cli.conftest import ROOT, error_of

RANS = tuple(Ran(sessions, 100, (-0.01,) * (100 - late) + (0.005,) * late, 0.5) for sessions, late in ((1, 0), (4, 25)))
LIVE = Live("m<1>", 0.032, 0.01, 5.0, 2, 7, RANS, RANS[:1], 1, 1)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


def test_a_live_bench_as_text() -> None:
    assert render(LIVE) == (
        "m<1>: a unit every 32 ms, 10 ms of it ahead, 5 s a run, 2 lanes\n"
        "\n"
        "         sessions    units     late   lateness in ms: p50      p95      p99      max     busy\n"
        "stock           1      100    0.00%                  -10.00   -10.00   -10.00   -10.00      50%\n"
        "stock           4      100   25.00%                  -10.00     5.00     5.00     5.00      50%\n"
        "replay          1      100    0.00%                  -10.00   -10.00   -10.00   -10.00      50%\n"
        "\n"
        "none late: 1 sessions of the stock loop, 1 of the replay"
    )


def test_random_weights_are_told() -> None:
    random = replace(LIVE, random_weights=True)
    assert render(random).startswith("m<1>, random weights: a unit every 32 ms")
    assert ">m&lt;1&gt;, random weights: lateness" in plot(random)
    assert to_json(random)["random_weights"] and not to_json(LIVE)["random_weights"]


def test_a_bench_as_json() -> None:
    schema, body = versioned(LIVE)
    assert schema == "cadencec.bench-live/1"
    assert body["most_sessions"] == {"stock": 1, "replay": 1}
    assert body["stock"][1] == {
        "sessions": 4,
        "units": 100,
        "late": 25,
        "lateness_s": {"p50": -0.01, "p95": 0.005, "p99": 0.005, "max": 0.005},
        "busy": 0.5,
    }


def test_the_plot_has_a_point_for_each_run_and_stands_by_itself() -> None:
    root = ET.fromstring(plot(LIVE))  # noqa: S314
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert names.count("circle") == 3
    assert names.count("polyline") == 2
    points = [(float(e.attrib["cx"]), float(e.attrib["cy"])) for e in root.iter() if e.tag.endswith("circle")]
    assert points[0] == points[2]  # the same run on both sides
    assert points[1][0] > points[0][0] and points[1][1] < points[0][1]  # more sessions to the right, later above
    assert "m<1>" in "".join(root.itertext())


def test_sessions_run_on_both_sides(talk_case: Case, tmp_path: Path) -> None:
    files = [talk_case.plan_file, "--spec", talk_case.spec_file]
    live = ["--live", "--sessions", "1", "--sessions", "3", "--seconds", "0.2", "--lanes", "0"]
    done = run(*files, *live, "--plot", tmp_path / "plot.svg", "--json")
    assert done.exit_code == 0, done.output
    body = json.loads(done.stdout)
    assert body["schema"] == "cadencec.bench-live/1"
    for side in ("stock", "replay"):
        assert [(ran["sessions"], ran["units"]) for ran in body[side]] == [(1, 10), (3, 30)]
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")


def test_the_largest_number_is_looked_for(talk_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"run_stock": 3, "run_replay": 9}
    for name, limit in limits.items():

        def ran(model: object, talks: object, sessions: int, conditions: object, limit: int = limit) -> Ran:
            return Ran(sessions, 1, (float(sessions - limit),), 0.0)

        monkeypatch.setattr(f"cadencec.bench.live.{name}", ran)
    done = run(talk_case.plan_file, "--spec", talk_case.spec_file, "--live", "--json")
    assert json.loads(done.stdout)["most_sessions"] == {"stock": 3, "replay": 9}


def test_what_cannot_be_benched_is_refused(talk_case: Case, pipeline_case: Case, tmp_path: Path) -> None:
    talk = [talk_case.plan_file, "--spec", talk_case.spec_file]
    assert error_of(run(talk_case.plan_file, "--spec", pipeline_case.spec_file, "--json"))["code"] == "CAD6901"
    error = error_of(run(pipeline_case.plan_file, "--spec", pipeline_case.spec_file, "--live", "--json"))
    assert error == {
        "code": "CAD9722",
        "what": "a live bench needs time for a unit",
        "expected": "a cadence in the spec, longer than what is ahead",
        "got": "none",
        "at": None,
        "hint": None,
    }
    error = error_of(run(*talk, "--live", "--ahead", "20", "--json"))
    assert (error["code"], error["got"]) == ("CAD9722", "20 ms, and 20 ms ahead")
    error = error_of(run(*talk, "--plot", tmp_path / "plot.svg", "--json"))
    assert error == {
        "code": "CAD9723",
        "what": "`--plot` draws a live bench",
        "expected": "`--live`",
        "got": "no `--live`",
        "at": None,
        "hint": None,
    }
    error = error_of(run(*talk, "--live", "--plot", talk_case.spec_file, "--json"))
    assert error == {
        "code": "CAD9724",
        "what": "the plot would replace what is benched",
        "expected": None,
        "got": None,
        "at": str(talk_case.spec_file),
        "hint": "choose another name for it",
    }
    assert error_of(run(*talk, "--live", "--plot", tmp_path / "none" / "plot.svg", "--json"))["code"] == "CAD9204"


def test_a_plan_for_cuda_is_not_benched_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cadencec.bench.bench.check_spec", lambda plan, spec: None)
    plan = ROOT / "plans" / "growing-kv-cat.cuda-sm90.format-1.0.2026-12-01.plan"
    error = error_of(run(plan, "--spec", ROOT / "tests" / "cases" / "01_growing_kv_cat.yaml", "--live", "--json"))
    assert error == {
        "code": "CAD9721",
        "what": "only plans for the cpu can be benched live",
        "expected": "cpu",
        "got": "cuda",
        "at": None,
        "hint": "without `--live`, plans for CUDA are benched too",
    }
