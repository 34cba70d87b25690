"""What goes wrong when people use a tool: one message with code, expected, got, where and hint; nothing lost."""

import json
import os
import resource
import struct
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from tests.cli.conftest import CASE_01, CASES, ROOT, CommandLine, error_of

SPEC = CASE_01.read_text().replace("./01_growing_kv_cat.py", "./model.py")
AS_ROOT = os.geteuid() == 0


def write_model(body: str) -> Path:
    """Write a spec and the module that it names into the working folder."""
    Path("model.py").write_text(body)
    spec = Path("model.yaml")
    spec.write_text(SPEC)
    return spec


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir()}


# Targets.


def test_a_compilation_for_cuda_without_the_driver(cadencec: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cadence_runtime.cuda.driver.LIBRARY", "libnone.so.1")
    error = error_of(cadencec("compile", str(CASE_01), "--target", "cuda", "-o", "x.plan", "--json"))
    assert (error["code"], error["expected"]) == ("CAD8002", "libnone.so.1")
    assert files() == {}


def test_a_compilation_for_cuda_without_the_bindings(cadencec: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cadence_runtime.cuda.bindings", None)
    error = error_of(cadencec("compile", str(CASE_01), "--target", "cuda", "-o", "x.plan", "--json"))
    assert (error["code"], error["expected"]) == ("CAD8005", "cuda-bindings")
    assert files() == {}


# Specs and models.


def test_a_missing_spec(cadencec: CommandLine) -> None:
    error = error_of(cadencec("compile", "none.yaml", "--json"))
    assert (error["code"], error["at"]) == ("CAD1001", "none.yaml")


def test_a_folder_as_spec(cadencec: CommandLine) -> None:
    Path("specs").mkdir()
    assert error_of(cadencec("compile", "specs", "--json"))["code"] == "CAD1002"


@pytest.mark.skipif(AS_ROOT, reason="root may read everything")
def test_an_unreadable_spec(cadencec: CommandLine) -> None:
    spec = write_model("")
    spec.chmod(0)
    assert error_of(cadencec("compile", spec, "--json"))["code"] == "CAD1003"


@pytest.mark.parametrize(
    ("body", "code", "got"),
    [
        ("import no_such_module", "CAD3402", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def build(:", "CAD3402", "SyntaxError: invalid syntax (model.py, line 1)"),
        ("x = 1", "CAD3403", "no function"),
        ("build = 1", "CAD3404", "`int`"),
        ("def build():\n    raise ValueError('boom')", "CAD3406", "ValueError: boom"),
        ("def build():\n    raise SystemExit(0)", "CAD3406", "SystemExit: 0"),
        ("def build():\n    return None", "CAD3407", "`NoneType` without `init_state` and `step`"),
    ],
)
def test_an_entry_that_gives_no_model(cadencec: CommandLine, body: str, code: str, got: str) -> None:
    spec = write_model(body)
    before = files()
    done = cadencec("compile", spec, "--json")
    error = error_of(done)
    assert (done.exit_code, error["code"], error["got"]) == (1, code, got)
    assert files() == before


def test_a_model_that_raises_is_shown_where(cadencec: CommandLine) -> None:
    spec = write_model("def build():\n    raise ValueError('boom')")
    assert error_of(cadencec("compile", spec, "--json"))["at"] == "model.py:2: raise ValueError('boom')"


def test_every_error_of_a_spec_at_once(cadencec: CommandLine) -> None:
    Path("model.yaml").write_text(SPEC.replace("clock: frame", "clcok: frame").replace("axis", "axes") + "horizn: 3\n")
    done = cadencec("compile", "model.yaml", "--json")
    assert done.exit_code == 2
    assert [error["code"] for error in json.loads(done.stdout)["errors"]] == ["CAD1203", "CAD1203"]


def test_cad9006_a_pass_that_does_not_exist(cadencec: CommandLine) -> None:
    error = error_of(cadencec("compile", CASE_01, "--without", "folding", "--json"))
    assert error == {
        "code": "CAD9006",
        "what": "there is no such pass",
        "expected": "one of `fills`, `fold`, `dead`, `kernels`, `in_place`",
        "got": "`folding`",
        "at": None,
        "hint": None,
    }


# Inputs of a session.


def run(cadencec: CommandLine, plan: Path, **arrays: Any) -> Result:
    """Run a plan on arrays; whatever stood at the output must still stand there."""
    np.savez("feed.npz", **arrays)
    Path("out.npz").write_bytes(b"old")
    done = cadencec("run", plan, "--input", "feed.npz", "-o", "out.npz", "--json")
    assert sorted(files()) == ["feed.npz", "out.npz"] and Path("out.npz").read_bytes() == b"old"
    return done


def frames(count: int, dtype: str = "float32") -> Any:
    return np.ones((count, 1, 1, 16), dtype)


def test_the_seventh_frame_is_refused_by_region(cadencec: CommandLine, case_01_plan: Path) -> None:
    done = run(cadencec, case_01_plan, x=frames(7))
    assert (done.exit_code, error_of(done)) == (
        2,
        {
            "code": "CAD7005",
            "what": "a 7th `frame` is refused by region `kv`",
            "expected": "at most 6 events between resets",
            "got": "the 7th",
            "at": "push 6",
            "hint": "push `turn` first",
        },
    )


def test_an_input_of_the_wrong_shape(cadencec: CommandLine, case_01_plan: Path) -> None:
    error = error_of(run(cadencec, case_01_plan, x=np.ones((1, 1, 1, 17), "float32")))
    assert (error["code"], error["what"], error["at"]) == (
        "CAD7051", "event `frame` got an input of another shape", "push 0",
    )  # fmt: skip
    assert "16" in error["expected"] and "17" in error["got"]


def test_an_input_of_the_wrong_dtype(cadencec: CommandLine, case_01_plan: Path) -> None:
    error = error_of(run(cadencec, case_01_plan, x=frames(1, "float64")))
    assert (error["code"], error["expected"], error["got"]) == (
        "CAD7055", "an array of float32 on the host", "float64 on cpu",
    )  # fmt: skip


def test_an_event_that_does_not_exist(cadencec: CommandLine, case_01_plan: Path) -> None:
    error = error_of(run(cadencec, case_01_plan, events=["trun"]))
    assert (error["code"], error["what"], error["at"]) == ("CAD7001", "there is no event `trun`", "push 0")


def test_an_event_that_is_not_enabled(cadencec: CommandLine) -> None:
    spec = write_model((CASES / "01_growing_kv_cat.py").read_text())
    spec.write_text(
        SPEC.replace("clocks:", "counters: {on: 1}\nclocks:")
        .replace("turn: {reset: true}", "turn: {reset: true}\n  stop: {when: on == 1, do: {on: 0}}")
        .replace("frame: {inputs", "frame: {when: on == 1, inputs")
    )
    assert cadencec("compile", spec, "-o", "a.plan", "--set", "horizon=2 events").exit_code == 0
    np.savez("feed.npz", events=["stop", "frame"], x=frames(1))
    error = error_of(cadencec("run", "a.plan", "--input", "feed.npz", "-o", "out.npz", "--json"))
    assert (error["code"], error["what"], error["at"]) == ("CAD7002", "event `frame` is not enabled", "push 1")
    assert not Path("out.npz").exists()


def test_a_recording_for_a_plan_that_takes_none(cadencec: CommandLine, case_01_plan: Path) -> None:
    with wave.open("speech.wav", "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(2048))
    done = cadencec("run", case_01_plan, "--input", "speech.wav", "-o", "out.npz", "--json")
    assert (done.exit_code, error_of(done)["code"]) == (2, "CAD9104")


@pytest.mark.parametrize("name", ["none.npz", "none.wav"])
def test_a_missing_input(cadencec: CommandLine, case_01_plan: Path, name: str) -> None:
    plan = ROOT / ".cache" / "none.plan" if name == "none" else case_01_plan
    done = cadencec("run", plan, "--input", name, "-o", "out.npz", "--json")
    assert done.exit_code == 2
    assert error_of(done)["code"] in {"CAD9002", "CAD9104"}


def test_kinds_of_files_that_are_not_known(cadencec: CommandLine, case_01_plan: Path) -> None:
    for source, target in (("a.flac", "out.npz"), ("a.npz", "out.flac")):
        error = error_of(cadencec("run", case_01_plan, "--input", source, "-o", target, "--json"))
        assert (error["code"], error["got"]) == ("CAD9107", "`.flac`")


# Plans.


@pytest.mark.parametrize("verb", ["inspect", "check", "run", "verify"])
@pytest.mark.parametrize("name", ["none.plan", "folder"])
def test_a_plan_that_is_no_file(cadencec: CommandLine, verb: str, name: str) -> None:
    Path("folder").mkdir()
    more = {"run": ["--input", "a.npz", "-o", "b.npz"], "verify": ["--spec", CASE_01]}.get(verb, [])
    done = cadencec(verb, name, *more, "--json")
    assert (done.exit_code, error_of(done)["code"]) == (2, "CAD9201" if name == "none.plan" else "CAD9202")


@pytest.mark.parametrize("verb", ["inspect", "run", "verify"])
@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda data: data[: len(data) // 2], "CAD5003"),
        (lambda data: data[:8] + struct.pack("<H", 7) + data[10:], "CAD5005"),
        (lambda data: data.replace(b"\r\n", b"\n"), "CAD5002"),
        (lambda data: b"cadence_spec: 1\n" + data, "CAD5001"),
        (lambda data: data[:1500] + bytes([data[1500] ^ 1]) + data[1501:], "CAD5007"),
        (lambda data: b"", "CAD5003"),
    ],
    ids=["cut", "version", "text", "other", "flipped", "empty"],
)
def test_a_damaged_plan(cadencec: CommandLine, case_01_plan: Path, verb: str, damage: Any, code: str) -> None:
    Path("bad.plan").write_bytes(damage(case_01_plan.read_bytes()))
    more = {"run": ["--input", "a.npz", "-o", "b.npz"], "verify": ["--spec", CASE_01]}.get(verb, [])
    done = cadencec(verb, "bad.plan", *more, "--json")
    assert (done.exit_code, error_of(done)["code"]) == (3, code)


def test_check_tells_of_a_damaged_plan_as_its_result(cadencec: CommandLine, case_01_plan: Path) -> None:
    Path("bad.plan").write_bytes(case_01_plan.read_bytes()[:1000])
    done = cadencec("check", "bad.plan", "--json")
    body = json.loads(done.stdout)
    assert (done.exit_code, body["verdict"], body["reasons"][0]["code"]) == (3, "incompatible", "CAD5003")
    assert cadencec("check", "bad.plan").stdout.startswith("incompatible\nCAD5003: the plan is cut short\n")


def test_a_plan_without_its_weights(cadencec: CommandLine, case_01_plan: Path) -> None:
    Path("alone.plan").write_bytes(case_01_plan.read_bytes())
    done = cadencec("check", "alone.plan", "--json")
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (3, "incompatible")
    (weights,) = case_01_plan.parent.glob("*.safetensors")
    assert cadencec("check", "alone.plan", "--weights", weights).exit_code == 0


def test_a_plan_of_another_spec(cadencec: CommandLine, case_01_plan: Path) -> None:
    done = cadencec("verify", case_01_plan, "--spec", CASE_01, "--set", "horizon=5 events", "--json")
    assert (done.exit_code, error_of(done)["code"]) == (3, "CAD6901")


# Disks.


def test_an_output_in_a_folder_that_does_not_exist(cadencec: CommandLine) -> None:
    done = cadencec("compile", CASE_01, "-o", "none/a.plan", "--json")
    assert (done.exit_code, error_of(done)["code"]) == (2, "CAD9204")
    assert "trace" not in done.stderr, "said only after all the work"


def test_an_output_that_is_a_folder(cadencec: CommandLine) -> None:
    Path("folder").mkdir()
    assert error_of(cadencec("compile", CASE_01, "-o", "folder", "--json"))["code"] == "CAD9202"
    assert list(Path("folder").iterdir()) == []


def limited(limit_bytes: int, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a command line that cannot write larger files than this, as on a full disk."""
    return subprocess.run(
        [sys.executable, "-m", "cadencec", *args],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes)),
    )


def test_a_full_disk_under_a_plan(cadencec: CommandLine) -> None:
    Path("a.plan").write_bytes(b"old")
    done = limited(2000, "compile", str(CASE_01), "-o", "a.plan")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-4].startswith("error CAD9205: ")
    assert "Traceback" not in done.stderr
    assert files() == {"a.plan": b"old"}


def test_a_full_disk_under_results(cadencec: CommandLine, case_01_plan: Path) -> None:
    np.savez("feed.npz", x=frames(6))
    Path("out.npz").write_bytes(b"old")
    done = limited(500, "run", str(case_01_plan), "--input", "feed.npz", "-o", "out.npz")
    assert done.returncode == 2
    assert "error CAD9205: " in done.stderr and "Traceback" not in done.stderr
    assert sorted(files()) == ["feed.npz", "out.npz"] and Path("out.npz").read_bytes() == b"old"


@pytest.mark.parametrize(
    "line",
    [
        "check PLAN --policy PIPE",
        "sign PLAN --key PIPE",
        "sign PLAN --key KEY --certificate PIPE",
        "run PLAN --input PIPE.npz -o a.json",
        "inspect PIPE",
        "diff PLAN PIPE",
    ],
)
def test_a_pipe_is_never_waited_for(cadencec: CommandLine, case_01_plan: Path, line: str) -> None:
    os.mkfifo("pipe")
    os.symlink("pipe", "pipe.npz")
    os.mkfifo("key")
    words = {"PLAN": str(case_01_plan), "PIPE": "pipe", "PIPE.npz": "pipe.npz", "KEY": "key"}
    given = [words.get(word, word) for word in line.split()]
    error = error_of(cadencec(*given, "--json"))
    assert (error["code"], error["got"]) == ("CAD9202", "a pipe")


@pytest.mark.parametrize(
    "line", ["compile SPEC -o -", "report PLAN -o -", "diff PLAN PLAN --html -", "init ./none.py:build -o -"]
)
def test_stdout_is_no_file(cadencec: CommandLine, case_01_plan: Path, line: str) -> None:
    given = [word.replace("PLAN", str(case_01_plan)).replace("SPEC", str(CASE_01)) for word in line.split()]
    error = error_of(cadencec(*given, "--json"))
    assert (error["code"], error["hint"]) == ("CAD9206", "name a file; one of this name is `./-`")
    assert files() == {}
