"""Disks that are full or may not be written: one message, and the old files as they were."""

import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cadence_runtime import Policy, check
from cadence_runtime.errors import UsageError
from cadence_runtime.format.replace import check_writable
from cadencec.compile.job import Written, write
from cadencec.plan.compile import compile_spec
from cadencec.sign import Signer, sign_file
from cadencec.spec import load_spec
from tests.cli.conftest import CASE_01
from tests.runtime.keys import new_pair

FULL, DONE = 7, 0


def test_a_disk_that_fills_up_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pair = new_pair(tmp_path, "release")
    old = compile_spec(load_spec(CASE_01, {"horizon": "1 events"}), embed_weights=True).plan
    new = compile_spec(load_spec(CASE_01, {"horizon": "2 events"}), embed_weights=True).plan
    plan = Path("a.cpu.plan")

    def release(limit_bytes: int | None = None) -> Written:
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
        written = write(new if limit_bytes is not None else old, plan, embed_weights=False)
        sign_file(str(plan), Signer(str(pair.private)))
        return written

    largest = max(release().plan_bytes, *(file.stat().st_size for file in Path().iterdir()))
    seen = set()
    for limit_bytes in (*range(0, largest, largest // 12), 2 * largest):
        release()
        before = plan.read_bytes()
        status = in_a_fork(lambda limit_bytes=limit_bytes: release(limit_bytes))
        is_old, is_trusted = plan.read_bytes() == before, check(plan, policy=Policy(pair.public)).verdict == "ok"
        assert check(plan, full=True).verdict == "ok"
        assert is_trusted or not is_old
        assert not list(Path().glob(".*.tmp"))
        seen.add((status, is_old))
    assert seen == {(FULL, True), (DONE, False)}


def in_a_fork(work: Callable[[], object]) -> int:
    """Run `work` in a fork; return `DONE`, or `FULL` where it said that there was no room."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(DONE)
        except UsageError as error:
            os._exit(FULL if error.code == "CAD9205" else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def on_a_small_disk(folder: Path, size: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a file system of its own, of so many bytes; skip where this user may not make one."""
    compiled = f"{shlex.quote(sys.executable)} -m cadencec compile {CASE_01} -o a.cpu.plan"
    whole = f'mount -t tmpfs -o size={size} tmpfs . || exit 99; cd "$PWD"; {script.format(compile=compiled)}'
    command = ["unshare", "--mount", "sh", "-c", whole]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode in (1, 99) and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip("this user may not mount")
    return done


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    script = (
        "printf old > a.cpu.plan; {compile} 2>&1 >/dev/null; echo $?; cat a.cpu.plan; echo; ls -A | grep -v safetensors"
    )
    done = on_a_small_disk(tmp_path, "12k", script)
    assert "error CAD9205: the file cannot be written\n  got:      no space left on device\n" in done.stdout
    assert "Traceback" not in done.stdout
    assert done.stdout.splitlines()[-3:] == ["2", "old", "a.cpu.plan"]


def test_a_disk_that_may_only_be_read_is_noticed_before_the_work(tmp_path: Path) -> None:
    script = "printf old > a.cpu.plan; mount -o remount,ro .; {compile} 2>&1 >/dev/null; echo $?; cat a.cpu.plan"
    done = on_a_small_disk(tmp_path, "1m", script)
    assert done.stdout == (
        "load\n"
        "error CAD9205: the file cannot be written\n"
        "  got:      read-only file system\n"
        "  at:       a.cpu.plan\n"
        "  hint:     what stood there still stands; free some space or choose another folder\n"
        "2\nold"
    )


def test_asking_leaves_nothing(tmp_path: Path) -> None:
    check_writable(tmp_path / "a.plan")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="CAD9204"):
        check_writable(tmp_path / "none" / "a.plan")
    with pytest.raises(UsageError, match="CAD9202"):
        check_writable(tmp_path)
