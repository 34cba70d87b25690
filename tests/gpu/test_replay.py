"""On a GPU: every replay case, a stage that repeats, Silero, a small Step-Audio 2 decoder and the toy tail, compiled in
one process and replayed in another without torch, at the recorded address and elsewhere, with all memory that a plan
does not fill poisoned."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cadencec.compile.job import CACHE
from tests.cases.driver import STEP_KEYS

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
NAMES = [*sorted(STEP_KEYS), "euler", "silero", "step_audio2", "toy_tail"]
AT_ONCE = 4


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), str(ROOT / "runtime_stub"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(lambda name: run("make.py", name, str(folder)), NAMES))
    failed = {name: one.stderr[-2000:] for name, one in zip(NAMES, done, strict=True) if one.returncode}
    assert not failed, "\n".join(f"{name}: {error}" for name, error in failed.items())
    return folder


@pytest.mark.parametrize("address", ["recorded", "500000000000"])
def test_a_process_without_torch_replays_bit_for_bit(made: Path, address: str) -> None:
    done = run("replay.py", str(made), address, *NAMES)
    assert done.stdout.splitlines() == [*(f"{name} ok" for name in NAMES), "modules:"], done.stderr[-3000:]
    assert done.returncode == 0


def test_a_second_compile_takes_its_captures_from_the_cache_and_gives_the_same_bytes(
    made: Path, tmp_path: Path
) -> None:
    cache = made / CACHE
    before = sorted((path, path.stat().st_mtime_ns) for path in cache.rglob("*"))
    done = run("make.py", "01", str(tmp_path), str(cache))
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "01.plan").read_bytes() == (made / "01.plan").read_bytes()
    assert sorted((path, path.stat().st_mtime_ns) for path in cache.rglob("*")) == before
