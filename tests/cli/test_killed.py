"""Killing `compile` leaves the old plan, no plan or a whole plan, each with the weights it was made with."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cadence_runtime import Policy, check
from cadence_runtime.check import open_plan
from cadence_runtime.format.plan import Plan
from cadencec.compile.job import write
from cadencec.plan.compile import compile_spec
from cadencec.sign import Signer, sign_file
from cadencec.spec import load_spec
from tests.cli.conftest import CASES
from tests.runtime.keys import new_pair

SYSTEM_CALLS = ("open", "write", "fsync", "close", "replace", "stat")

MODEL = (
    (CASES / "01_growing_kv_cat.py")
    .read_text()
    .replace("def build():", "def build(seed=101):")
    .replace("seed(101)", "seed(seed)")
)
SPEC = (
    (CASES / "01_growing_kv_cat.yaml")
    .read_text()
    .replace("./01_growing_kv_cat.py:build", "./model.py:build\n  options: {seed: 1}")
)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Case 01 with a seed for its weights, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    Path("model.yaml").write_text(SPEC.replace("horizon: 6 events", "horizon: 1 events"))
    return Path("model.yaml")


def write_and_die(work: Callable[[], object], call: int) -> bool:
    """Run `work` in a fork that kills itself before its `call`-th call of the system; return whether it got there."""
    child = os.fork()
    if child == 0:
        left = [call]

        def counted(original: Callable[..., object]) -> Callable[..., object]:
            def run(*args: object, **kwargs: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*args, **kwargs)

            return run

        for name in SYSTEM_CALLS:
            setattr(os, name, counted(getattr(os, name)))
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("is_old", [True, False], ids=["over an old plan", "where nothing stood"])
def test_a_kill_before_every_call_of_the_system(spec: Path, is_old: bool) -> None:
    old = compile_spec(load_spec(spec, {"seed": "1"}), embed_weights=True).plan
    new = compile_spec(load_spec(spec, {"seed": "2"}), embed_weights=True).plan
    plan = Path("a.cpu.plan")
    seen, call, killed = set(), 0, True
    while killed:
        for path in Path().glob("*.safetensors"):
            path.unlink()
        plan.unlink(missing_ok=True)
        if is_old:
            write(old, plan, embed_weights=False)
        before = plan.read_bytes() if is_old else None
        killed = write_and_die(lambda: write(new, plan, embed_weights=False), call)
        after = plan.read_bytes() if plan.exists() else None
        seen.add("old" if after == before else "new")
        assert after is None or check(plan, full=True).verdict == "ok"
        call += 1
    assert seen == {"old", "new"}
    assert call > 10


def test_superseded_weights_stay_and_equal_ones_are_one_file(spec: Path) -> None:
    old, new = (compile_spec(load_spec(spec, {"seed": seed}), embed_weights=True).plan for seed in ("1", "2"))
    first = write(old, Path("a.cpu.plan"), embed_weights=False).weights_file
    kept = Path("a.cpu.plan").rename("old.cpu.plan")
    second = write(new, Path("a.cpu.plan"), embed_weights=False).weights_file
    assert write(old, Path("b.cpu.plan"), embed_weights=False).weights_file == first
    assert {path.name for path in Path().glob("*.safetensors")} == {str(first), str(second)}
    for plan in (kept, Path("a.cpu.plan"), Path("b.cpu.plan")):
        assert check(plan, full=True).verdict == "ok"


def test_a_kill_around_a_signature(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    pair = new_pair(tmp_path_factory.mktemp("keys"), "release")
    signer, policy = Signer(str(pair.private)), Policy(pair.public)
    old = compile_spec(load_spec(spec, {"seed": "1"}), embed_weights=True).plan
    new = compile_spec(load_spec(spec, {"seed": "2"}), embed_weights=True).plan
    plan = Path("a.cpu.plan")

    def release(content: Plan) -> None:
        write(content, plan, embed_weights=False)
        sign_file(str(plan), signer, expected=open_plan(plan))

    seen, call, killed = set(), 0, True
    while killed:
        release(old)
        before = plan.read_bytes()
        killed = write_and_die(lambda: release(new), call)
        report = check(plan, policy=policy)
        # Plan and signature are two files: between them there is a moment in which no policy takes the pair.
        assert [reason.code for reason in report.reasons] in ([], ["CAD6023"])
        assert check(plan, full=True).verdict == "ok"
        seen.add((plan.read_bytes() == before, report.verdict))
        call += 3
    assert seen == {(True, "ok"), (False, "incompatible"), (False, "ok")}


def compiling(spec: Path, seed: int, stderr: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "cadencec", "compile", str(spec), "-o", "a.cpu.plan", "--set", f"seed={seed}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)


def test_two_compilers_on_one_path(spec: Path) -> None:
    both = [compiling(spec, 1), compiling(spec, 2)]
    assert [process.wait() for process in both] == [0, 0]
    assert check("a.cpu.plan", full=True).verdict == "ok"
    assert not list(Path().glob(".*.tmp"))


def test_an_interrupt_is_one_line_and_leaves_nothing(spec: Path) -> None:
    process = compiling(spec, 1, stderr=subprocess.PIPE)
    assert process.stderr is not None and process.stderr.readline() == b"load\n"
    process.send_signal(signal.SIGINT)
    talk = process.stderr.read().split()
    # Python may end itself by the signal, which a shell shows as 130 too.
    assert process.wait() in {130, -signal.SIGINT}
    assert talk[-1] == b"interrupted" and b"Traceback" not in talk
    assert {path.name for path in Path().iterdir()} == {"model.py", "model.yaml"}


@pytest.mark.soak
def test_kills_at_random_moments(spec: Path) -> None:
    choose = random.Random(0)  # noqa: S311
    started = time.monotonic()
    assert compiling(spec, 0).wait() == 0
    whole_s = time.monotonic() - started
    outcomes = set()
    for seed in range(1, 51):
        before = Path("a.cpu.plan").read_bytes()
        process = compiling(spec, seed)
        # At any time, and twice as often around the end, where files are written.
        time.sleep(
            choose.choice([choose.uniform(0, 1.2), choose.uniform(0.8, 1.1), choose.uniform(0.8, 1.1)]) * whole_s
        )
        process.kill()
        process.wait()
        outcomes.add(Path("a.cpu.plan").read_bytes() == before)
        assert check("a.cpu.plan", full=True).verdict == "ok"
    assert outcomes == {True, False}
