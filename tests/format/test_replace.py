"""Whatever happens while a plan is written, its path holds the old plan, the new plan or nothing."""

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cadence_runtime.errors import CadenceError, UsageError
from cadence_runtime.format.reader import read_plan
from cadence_runtime.format.replace import replace_file
from cadence_runtime.format.writer import encode_plan, write_plan
from tests.format.plans import example

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join((str(ROOT), str(ROOT / "runtime_stub")))
OLD, NEW = example(name="old"), example(name="new")


def leftovers(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name != "toy.plan")


def test_a_plan_takes_the_place_of_another(tmp_path):
    write_plan(tmp_path / "toy.plan", OLD)
    write_plan(tmp_path / "toy.plan", NEW)
    assert read_plan(tmp_path / "toy.plan", decompress=None) == NEW
    assert leftovers(tmp_path) == []


def test_permissions_are_those_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_plan(tmp_path / "toy.plan", NEW)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "toy.plan").stat().st_mode) == 0o640


def test_a_link_keeps_pointing_where_it_points(tmp_path):
    (tmp_path / "shelf").mkdir()
    (tmp_path / "toy.plan").symlink_to("shelf/real.plan")
    write_plan(tmp_path / "toy.plan", NEW)
    assert (tmp_path / "toy.plan").is_symlink()
    assert read_plan(tmp_path / "shelf" / "real.plan", decompress=None) == NEW


def test_an_open_plan_stays_what_it_is(tmp_path):
    write_plan(tmp_path / "toy.plan", OLD)
    with open(tmp_path / "toy.plan", "rb") as held:
        write_plan(tmp_path / "toy.plan", NEW)
        assert held.read() == encode_plan(OLD)


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
@pytest.mark.parametrize(
    "raised", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
def test_a_failure_leaves_the_old_plan_and_nothing_else(tmp_path, monkeypatch, failing, raised):
    write_plan(tmp_path / "toy.plan", OLD)

    def fail(*args: object) -> None:
        raise raised

    with monkeypatch.context() as patched:
        patched.setattr(os, failing, fail)
        with pytest.raises(UsageError if isinstance(raised, OSError) else type(raised)) as caught:
            write_plan(tmp_path / "toy.plan", NEW)
    if isinstance(raised, OSError):
        assert (caught.value.code, caught.value.got) == ("CAD9205", "no space left on device")
    assert read_plan(tmp_path / "toy.plan", decompress=None) == OLD
    assert leftovers(tmp_path) == []


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:100]))
    write_plan(tmp_path / "toy.plan", NEW)
    assert read_plan(tmp_path / "toy.plan", decompress=None) == NEW


def test_an_invalid_plan_is_not_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "open", lambda *args: pytest.fail("a file was opened"))
    with pytest.raises(Exception, match="CAD5501"):
        write_plan(tmp_path / "toy.plan", replace(NEW, weights=NEW.weights * 2))


@pytest.mark.parametrize("name", ["folder", "pipe"])
def test_only_a_file_is_replaced(tmp_path, name):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=f"CAD9202: not a file\n.*\n  got:      a {name}"):
        write_plan(tmp_path / name, NEW)


def test_a_device_is_not_replaced():
    with pytest.raises(UsageError, match="CAD9202"):
        write_plan("/dev/full", NEW)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


LOOP = """
import sys
from cadence_runtime.format.writer import write_plan
from tests.format.plans import example
plans = [example(name="old"), example(name="new")]
print("ready", flush=True)
while True:
    for plan in plans:
        write_plan(sys.argv[1], plan)
"""


def start_loop(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LOOP, str(path)]
    started = subprocess.Popen(command, env={"PYTHONPATH": PATHS}, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


def test_what_a_plan_needs_is_there_only_with_the_plan(tmp_path, monkeypatch):
    needed = tmp_path / "toy.weights"
    with pytest.raises(UsageError, match="CAD9204"):
        write_plan(tmp_path / "no folder" / "toy.plan", NEW, before=[(needed, b"abc")])
    with pytest.raises(CadenceError, match="CAD5501"):
        write_plan(tmp_path / "toy.plan", replace(NEW, weights=NEW.weights * 2), before=[(needed, b"abc")])
    with monkeypatch.context() as patched:
        real = os.write
        patched.setattr(os, "write", lambda to, data: refuse_write() if len(data) > 3 else real(to, data))
        with pytest.raises(UsageError, match=f"CAD9205(.|\n)*{tmp_path}/toy.plan"):
            write_plan(tmp_path / "toy.plan", NEW, before=[(needed, b"abc")])
    assert list(tmp_path.iterdir()) == []
    size = write_plan(tmp_path / "toy.plan", NEW, before=[(needed, b"abc")])
    assert (needed.read_bytes(), (tmp_path / "toy.plan").stat().st_size) == (b"abc", size)
    assert leftovers(tmp_path) == ["toy.weights"]


def refuse_write() -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_of_the_name_of_stdout_is_possible(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_plan("./-", NEW)
    assert read_plan("./-", decompress=None) == NEW


def test_a_kill_leaves_a_whole_plan(tmp_path):
    """Ten kills at random moments of a process that does nothing but write; `make soak` has more."""
    kill_again_and_again(tmp_path, 10)


@pytest.mark.soak
def test_many_kills_leave_a_whole_plan(tmp_path):
    kill_again_and_again(tmp_path, 200)


def kill_again_and_again(folder: Path, count: int) -> None:
    path, rng = folder / "toy.plan", random.Random(5)  # noqa: S311
    write_plan(path, OLD)
    for _ in range(count):
        writing = start_loop(path)
        time.sleep(rng.uniform(0, 0.05))
        writing.kill()
        writing.communicate(timeout=60)
        assert read_plan(path, decompress=None) in (OLD, NEW)
        assert all(name.startswith(".toy.plan.") and name.endswith(".tmp") for name in leftovers(folder))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_end_cleans_up(tmp_path, number):
    path, rng = tmp_path / "toy.plan", random.Random(6)  # noqa: S311
    write_plan(path, OLD)
    for _ in range(4):
        writing = start_loop(path)
        time.sleep(rng.uniform(0.01, 0.05))
        writing.send_signal(number)
        writing.communicate(timeout=60)
        assert read_plan(path, decompress=None) in (OLD, NEW)
        assert leftovers(tmp_path) == []


def test_two_writers_at_once_leave_one_whole_plan(tmp_path):
    path = tmp_path / "toy.plan"
    writers = [start_loop(path), start_loop(path)]
    for _ in range(30):
        time.sleep(0.01)
        if path.exists():
            assert read_plan(path, decompress=None) in (OLD, NEW)
    for writer in writers:
        writer.terminate()
        writer.communicate(timeout=60)
    assert leftovers(tmp_path) == []


def test_the_size_is_what_was_written(tmp_path):
    assert replace_file(tmp_path / "x", [b"abc", b"", b"de"]) == 5
    assert (tmp_path / "x").read_bytes() == b"abcde"
