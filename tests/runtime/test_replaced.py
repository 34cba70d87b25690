"""A plan that is replaced or written to while it is loaded, read or played: one build or an error, never two mixed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

from cadence_runtime import check, load
from cadence_runtime.check import open_plan
from cadence_runtime.cpu.player import CpuPlayer
from cadence_runtime.errors import CadenceError, PlanError
from cadence_runtime.format import blobs
from cadence_runtime.format.plan import Plan
from cadencec.compile.job import write
from cadencec.plan.compile import compile_spec
from cadencec.spec import load_spec
from tests.cases.driver import spec_path

X = torch.ones(1, 1, 16)


@dataclass(frozen=True, slots=True)
class Build:
    """A build on disk, in a folder of its own, and what its first step gives."""

    plan: Path
    weights: Path
    content: Plan
    output: torch.Tensor


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Build, Build]:
    """Two builds of one spec from models with other weights."""
    folder = tmp_path_factory.mktemp("builds")
    source = spec_path("01").with_suffix(".py").read_text()
    text = spec_path("01").read_text().replace("./01_growing_kv_cat.py", "./model.py").replace("6 events", "1 events")
    (folder / "model.yaml").write_text(text)
    found = []
    for seed in (101, 102):
        (folder / "model.py").write_text(source.replace("seed(101)", f"seed({seed})"))
        plan = compile_spec(load_spec(folder / "model.yaml"), embed_weights=True).plan
        (folder / str(seed)).mkdir()
        written = write(plan, folder / str(seed) / "a.cpu.plan", embed_weights=False)
        assert written.weights_file is not None
        found.append(Build(written.plan_file, written.weights_file, written.plan, first_step(written.plan_file)))
    assert not torch.equal(found[0].output, found[1].output)
    return found[0], found[1]


def first_step(plan: Path, weights: Path | None = None) -> torch.Tensor:
    with load(plan, weights) as loaded, loaded.session() as session:
        output: torch.Tensor = session.push("frame", x=X)["y"]
        return output


def copied(build: Build, folder: Path) -> Path:
    """Put a build's files into a folder, each by renaming; return the plan."""
    for file in (build.weights, build.plan):
        shutil.copy(file, folder / "new")
        (folder / "new").replace(folder / file.name)
    return folder / build.plan.name


def test_a_plan_that_is_loaded_stays_what_it_was(builds: tuple[Build, Build], tmp_path: Path) -> None:
    old, new = builds
    plan = copied(old, tmp_path)
    with load(plan) as loaded:
        copied(new, tmp_path)
        (tmp_path / old.weights.name).write_bytes(b"gone")
        assert torch.equal(loaded.session().push("frame", x=X)["y"], old.output)
        assert torch.equal(first_step(plan), new.output)


def at_read(monkeypatch: pytest.MonkeyPatch, number: int, change: Callable[[], object]) -> None:
    """Change the files right before the n-th read of a plan."""
    original, left = os.pread, [number]

    def read(descriptor: int, size: int, offset: int) -> bytes:
        if left[0] == 0:
            change()
        left[0] -= 1
        return original(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", read)


READS = range(0, 18)


@pytest.mark.parametrize("number", READS)
def test_a_plan_that_is_replaced_while_it_is_read(
    builds: tuple[Build, Build], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    plan = copied(builds[0], tmp_path)
    at_read(monkeypatch, number, lambda: copied(builds[1], tmp_path))
    assert open_plan(plan) == builds[0].content


@pytest.mark.parametrize("number", READS)
def test_a_plan_that_is_written_to_while_it_is_read(
    builds: tuple[Build, Build], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    plan, other = copied(builds[0], tmp_path), builds[1].plan.read_bytes()
    at_read(monkeypatch, number, lambda: plan.write_bytes(other))
    with suppress(PlanError):
        assert open_plan(plan) == builds[number == 0].content


@pytest.mark.parametrize("number", READS)
def test_a_plan_that_is_cut_short_while_it_is_read(
    builds: tuple[Build, Build], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    plan = copied(builds[0], tmp_path)
    at_read(monkeypatch, number, lambda: os.truncate(plan, plan.stat().st_size // 2))
    with suppress(PlanError):
        assert open_plan(plan) == builds[0].content


def test_damage_that_is_found_while_the_arena_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last blob is read when another is in the arena: the message is that of a plain read, and nothing stays."""
    compiled = compile_spec(load_spec(spec_path("01")), embed_weights=True).plan
    good, damaged = write(compiled, tmp_path / "good.plan", embed_weights=True).plan_file, tmp_path / "bad.plan"
    data = bytearray(good.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(PlanError, match="CAD5007") as expected:
        open_plan(damaged)

    filled, threads = Event(), torch.get_num_threads()
    fill, content = CpuPlayer._fill, blobs._content
    last = max(number for number, blob in enumerate(compiled.blobs) if blob)

    def fills(player: CpuPlayer, *arguments: Any) -> None:
        fill(player, *arguments)
        filled.set()

    def reads(row: Any, *arguments: Any) -> bytes:
        assert row.index != last or filled.wait(timeout=10)
        return content(row, *arguments)

    monkeypatch.setattr(CpuPlayer, "_fill", fills)
    monkeypatch.setattr(blobs, "_content", reads)
    with pytest.raises(PlanError) as caught:
        load(damaged)
    assert str(caught.value) == str(expected.value)
    assert filled.is_set() and torch.get_num_threads() == threads
    filled.clear()
    assert torch.equal(first_step(good), first_step(good))


def test_weights_of_one_build_never_play_with_the_plan_of_another(builds: tuple[Build, Build], tmp_path: Path) -> None:
    one, other = builds
    for plan, weights in ((one, other), (other, one)):
        with pytest.raises(CadenceError, match="CAD6004"):
            load(plan.plan, weights.weights)
        shutil.copy(plan.plan, tmp_path / "a.plan")
        shutil.copy(weights.weights, tmp_path / plan.weights.name)
        assert {reason.code for reason in check(tmp_path / "a.plan").reasons} == {"CAD6004"}


def test_loads_during_releases(builds: tuple[Build, Build], tmp_path: Path) -> None:
    """Another process puts one build and the other at the same path, over and over; every load gives one of them."""
    plan = copied(builds[0], tmp_path)
    code = (
        "import os, shutil, sys\n"
        "while True:\n"
        "    for file in sys.argv[2:]:\n"
        "        shutil.copy(file, sys.argv[1] + '/new')\n"
        "        os.replace(sys.argv[1] + '/new', sys.argv[1] + '/' + os.path.basename(file))\n"
    )
    files = [str(file) for build in builds for file in (build.weights, build.plan)]
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path), *files]) as releasing:
        try:
            seen = [first_step(plan) for _ in range(60)]
        finally:
            releasing.kill()
    assert all(any(torch.equal(output, build.output) for build in builds) for output in seen)
