"""Each verb on good input: what it prints, as text and as JSON, and what it writes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from cadencec.cli.app import app
from tests.cli.conftest import CASE_01, ROOT, CommandLine


def frames(count: int) -> np.ndarray:
    """Inputs of case 01, one row a push."""
    return np.random.default_rng(1).standard_normal((count, 1, 1, 16), np.float32)


def test_compile_writes_the_plan_and_its_weights_here(cadencec: CommandLine, tmp_path: Path) -> None:
    done = cadencec("compile", CASE_01, "--json")
    body = json.loads(done.stdout)
    assert (done.exit_code, body["schema"]) == (0, "cadencec.compile/1")
    assert body["plan"]["file"] == "growing-kv-cat.cpu.plan"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([body["plan"]["file"], body["weights"]["file"]])
    assert body["plan"]["bytes"] == (tmp_path / body["plan"]["file"]).stat().st_size
    with safe_open(tmp_path / body["weights"]["file"], "np") as weights:
        assert sorted(weights.keys()) == ["o.bias", "o.weight", "qkv.bias", "qkv.weight"]
    assert body["keys"] == body["captures"] == 14 and body["states"] == 7
    assert body["fidelity"]["outputs_compared"] > 0 and body["warnings"] == []
    assert list(body["seconds"]) == ["load", "build", "trace", "walk", "write"]
    assert list(body["trace_seconds"]) == ["record", "stock", "passes", "compare", "pack"]
    assert sum(body["trace_seconds"].values()) < body["seconds"]["trace"]


def test_compile_sums_up_in_text(cadencec: CommandLine) -> None:
    done = cadencec("compile", CASE_01, "-o", "a.plan", "--embed-weights", "--dump-tape")
    assert done.exit_code == 0
    tapes, _, summary = done.stdout.partition("\na.plan: ")
    assert tapes.startswith("tape init, 0, as recorded: 2 ops") and "aten::addmm" in tapes
    heads = [line.rpartition(":")[0] for line in tapes.splitlines() if line.startswith("tape step, 1,")]
    assert heads == ["tape step, 1, as recorded", "tape step, 1, as replayed"]
    assert [line.split()[0] for line in summary.splitlines()[1:]] == [
        "model", "timeline", "coverage", "tapes", "arena", "scratch", "fidelity", "time", "tracing",
    ]  # fmt: skip
    assert "14 of 14 reachable keys captured" in summary
    assert "bit-equal to the stock model" in summary
    assert not list(Path().glob("*.safetensors"))


def test_compile_leaves_out_passes_and_takes_overrides(cadencec: CommandLine) -> None:
    passes = ("fills", "fold", "dead", "kernels", "in_place")
    without = [argument for name in passes for argument in ("--without", name)]
    horizon = ("--set", "horizon=2 events")
    plain = json.loads(cadencec("compile", CASE_01, "-o", "a.plan", *horizon, *without, "--json").stdout)
    short = json.loads(cadencec("compile", CASE_01, "-o", "b.plan", *horizon, "--json").stdout)
    assert plain["states"] == short["states"] == 3
    assert plain["ops"]["replayed"] > short["ops"]["replayed"]


def test_compile_twice_gives_the_same_bytes(cadencec: CommandLine, case_01_plan: Path) -> None:
    assert cadencec("compile", CASE_01, "-o", "other.plan").exit_code == 0
    assert Path("other.plan").read_bytes() == case_01_plan.read_bytes()
    (ours,), (theirs,) = Path().glob("*.safetensors"), case_01_plan.parent.glob("*.safetensors")
    assert (ours.name, ours.read_bytes()) == (theirs.name, theirs.read_bytes())


def test_check_says_ok(cadencec: CommandLine, case_01_plan: Path) -> None:
    done = cadencec("check", case_01_plan, "--full", "--target", "cpu")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "ok\n", "")
    assert json.loads(cadencec("check", case_01_plan, "--json").stdout) == {
        "schema": "cadencec.check/1",
        "verdict": "ok",
        "reasons": [],
        "remarks": [],
    }


def test_verify_says_bit_identical(cadencec: CommandLine, case_01_plan: Path) -> None:
    done = cadencec(
        "verify", case_01_plan, "--spec", CASE_01, "--events", "30", "--walks", "2", "--seconds", "0", "--json"
    )
    body = json.loads(done.stdout)
    assert (done.exit_code, body["schema"], body["equal"], body["events"]) == (0, "cadencec.verify/1", True, 30)
    text = cadencec("verify", case_01_plan, "--spec", CASE_01, "--events", "4", "--walks", "1", "--seconds", "0").stdout
    assert text.startswith("growing-kv-cat: bit-identical to the model's own stages\n")


@pytest.mark.parametrize("suffix", ["npz", "json"])
def test_run_takes_arrays_and_writes_what_comes_out(cadencec: CommandLine, case_01_plan: Path, suffix: str) -> None:
    np.savez("feed.npz", events=["frame", "frame", "turn", "frame"], x=frames(3))
    done = cadencec("run", case_01_plan, "--input", "feed.npz", "-o", f"out.{suffix}")
    assert (done.exit_code, done.stdout) == (0, f"out.{suffix}: y of 4 pushes\n")
    if suffix == "npz":
        with np.load("out.npz") as out:
            assert out["y"].shape == (3, 1, 1, 16) and out["events"].tolist() == ["frame", "frame", "turn", "frame"]
    else:
        pushes = json.loads(Path("out.json").read_bytes())["pushes"]
        assert [sorted(push["outputs"]) for push in pushes] == [["y"], ["y"], [], ["y"]]


def test_run_sums_up_as_json(cadencec: CommandLine, case_01_plan: Path) -> None:
    np.savez("feed.npz", x=frames(2))
    body = json.loads(cadencec("run", case_01_plan, "--input", "feed.npz", "-o", "out.npz", "--json").stdout)
    assert body == {
        "schema": "cadencec.run-summary/1", "pushes": 2, "outputs": ["y"], "target": "out.npz", "notes": [],
    }  # fmt: skip


def test_schema_is_the_json_schema_of_specs(cadencec: CommandLine) -> None:
    done = cadencec("schema")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["title"] == "cadencec clock spec"


@pytest.mark.parametrize("verb", list(app.commands))
def test_every_help_has_an_example(cadencec: CommandLine, verb: str) -> None:
    done = cadencec(verb, "--help")
    assert done.exit_code == 0
    assert f"\n    cadencec {verb} " in done.stdout or f"\n    cadencec {verb}\n" in done.stdout


def test_no_command_holds_logic() -> None:
    """Every verb is under 25 lines, options and docstring not counted."""
    import ast

    tree = ast.parse((ROOT / "cadencec" / "cli" / "app.py").read_text())
    lengths = {
        node.name: (node.end_lineno or 0) - node.lineno + 1 for node in tree.body if isinstance(node, ast.FunctionDef)
    }
    assert lengths and max(lengths.values()) < 25, lengths


def test_help_answers_at_once_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom cadencec.cli.app import app\n"
        "CliRunner().invoke(app, ['--help'])\n"
        "sys.exit(', '.join(sorted({'torch', 'numpy', 'pydantic', 'rich', 'networkx'} & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_imports_nothing_that_takes_time() -> None:
    """How long it takes is measured by `make bench`."""
    code = (
        "import sys\n"
        "sys.argv = ['cadencec', '--help']\n"
        "from cadencec.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "Commands:" in done.stdout and {"click", "cadencec"} <= loaded
    slow = {"torch", "numpy", "networkx", "pydantic", "jinja2", "safetensors", "starlette", "uvicorn", "transformers"}
    assert not loaded & slow


def test_the_version_is_printed(cadencec: CommandLine) -> None:
    from cadencec import __version__

    assert cadencec("--version").stdout == f"cadencec, version {__version__}\n"
