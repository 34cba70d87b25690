"""Captures on disk: what goes in comes out, damage is told and made anew, and a stopped compile goes on."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cadence_runtime.cuda.driver import DeviceInfo
from cadence_runtime.errors import TargetError, UsageError
from cadence_runtime.format.plan import TensorForm
from cadencec.compile.job import Request, cache_of
from cadencec.targets.backend import Finding
from cadencec.targets.cuda import cache as cache_module
from cadencec.targets.cuda import target
from cadencec.targets.cuda.cache import CaptureCache, key_of
from tests.targets.cuda.recordings import DIGEST, IMAGE, IMAGES, TAPE, recording

KEY = "ab" * 32


def opened(folder: Path) -> tuple[CaptureCache, list[str]]:
    told: list[str] = []
    return CaptureCache(folder, told.append), told


def test_what_goes_in_comes_out_in_another_process(tmp_path: Path) -> None:
    opened(tmp_path)[0].put(KEY, recording(), IMAGES)
    cache, told = opened(tmp_path)
    assert cache.get(KEY) == recording()
    assert cache.object(DIGEST) == IMAGE
    assert cache.get("cd" * 32) is None
    assert told == []


def test_the_same_capture_is_the_same_file(tmp_path: Path) -> None:
    for name in ("one", "other"):
        opened(tmp_path / name)[0].put(KEY, recording(), IMAGES)
    for path in sorted((tmp_path / "one").rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "other" / path.relative_to(tmp_path / "one")).read_bytes()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def altered(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, altered, emptied, Path.unlink])
@pytest.mark.parametrize("place", [f"captures/{KEY}", f"objects/{DIGEST}"])
def test_damage_is_told_and_made_anew(tmp_path: Path, place: str, damage: Callable[[Path], None]) -> None:
    opened(tmp_path)[0].put(KEY, recording(), IMAGES)
    damage(tmp_path / place)
    cache, told = opened(tmp_path)
    assert cache.get(KEY) is None
    if (damage, place) == (Path.unlink, f"captures/{KEY}"):
        assert told == []
    else:
        (message,) = told
        assert message.startswith(f"capture {KEY[:12]} of {tmp_path} is damaged (")
        assert message.endswith("): made anew")
    cache.put(KEY, recording(), IMAGES)
    assert opened(tmp_path)[0].get(KEY) == recording()


def test_a_key_depends_on_all_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    one = key_of({"tape": "a", "form": TensorForm("float32", (2,), (1,))})
    assert one == key_of({"form": TensorForm("float32", (2,), (1,)), "tape": "a"})
    assert one != key_of({"tape": "a", "form": TensorForm("float32", (2,), (2,))})
    monkeypatch.setattr(cache_module, "code_digest", lambda: "another compiler")
    assert one != key_of({"tape": "a", "form": TensorForm("float32", (2,), (1,))})


def test_a_capture_that_vanishes(tmp_path: Path) -> None:
    with pytest.raises(TargetError) as caught:
        opened(tmp_path)[0].taken(KEY)
    assert str(caught.value) == (
        "CAD4118: a capture left the cache while the plan was compiled\n"
        f"  expected: capture {KEY[:12]}\n"
        "  got:      nothing\n"
        f"  at:       {tmp_path}\n"
        "  hint:     compile again; leave the folder alone meanwhile, or use `--no-cache`"
    )


def finding(numerics: str = "false") -> Finding:
    return Finding(TAPE, {}, {}, {}, {}, {}, {}, (), (), {"cudnn.deterministic": numerics})


class Recorder:
    """Counts what is captured, and stops after some."""

    def __init__(self, stop: int | None = None) -> None:
        self.count, self.stop = 0, stop

    def record(self, job: Any, placements: Any) -> Any:
        if self.count == self.stop:
            raise KeyboardInterrupt
        self.count += 1
        return recording(self.count)


def made(folder: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> target.CudaTarget:
    generator = SimpleNamespace(get_state=lambda: torch.zeros(16), set_state=lambda state: None)
    monkeypatch.setattr(torch.cuda, "default_generators", (generator,))
    cache, told = opened(folder)
    info = DeviceInfo("fake", (9, 0), 13000, 1 << 40, 1 << 41)
    collector: Any = SimpleNamespace(images=IMAGES)
    rest: Any = None
    return target.CudaTarget(info, cache, told, collector, rest, recorder)  # type: ignore[arg-type]


def test_a_stopped_compile_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [finding(str(index)) for index in range(4)]
    first = Recorder(stop=2)
    compiler = made(tmp_path, first, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        for one in findings:
            compiler.add(one)
    second = Recorder()
    compiler = made(tmp_path, second, monkeypatch)
    for one in findings:
        compiler.add(one)
    assert (first.count, second.count) == (2, 2)
    third = Recorder()
    compiler = made(tmp_path, third, monkeypatch)
    for one in findings:
        compiler.add(one)
    assert third.count == 0
    assert compiler.warnings == []


@pytest.mark.parametrize(
    "change",
    [
        lambda info, one: (replace(info, driver=13010), one),
        lambda info, one: (replace(info, compute_capability=(9, 1)), one),
        lambda info, one: (replace(info, name="another"), one),
        lambda info, one: (info, replace(one, numerics={"cudnn.deterministic": "true"})),
        lambda info, one: (info, replace(one, owners=("kv",))),
        lambda info, one: (info, replace(one, tape=replace(TAPE, stage="other"))),
    ],
)
def test_what_a_capture_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[..., Any]) -> None:
    made(tmp_path, Recorder(), monkeypatch).add(finding())
    again = Recorder()
    compiler = made(tmp_path, again, monkeypatch)
    compiler.info, other = change(compiler.info, finding())
    compiler.add(other)
    assert again.count == 1


def test_switches_of_libraries_are_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, Recorder(), monkeypatch).add(finding())
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    again = Recorder()
    made(tmp_path, again, monkeypatch).add(finding())
    assert again.count == 1


def test_where_captures_are_kept(tmp_path: Path) -> None:
    plan = tmp_path / "out" / "model.cuda.plan"
    plan.parent.mkdir()
    assert cache_of(Request("spec.yaml", target="cuda"), plan) == plan.parent / ".cadencec-cache"
    assert cache_of(Request("spec.yaml", target="cuda", cache=str(tmp_path / "a" / "b")), plan) == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()
    assert cache_of(Request("spec.yaml", target="cuda", no_cache=True), plan) is None
    assert cache_of(Request("spec.yaml", target="cpu"), plan) is None


def test_a_cache_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError) as caught:
        cache_of(Request("spec.yaml", target="cuda", cache=str(tmp_path / "taken")), tmp_path / "model.plan")
    assert str(caught.value) == (
        "CAD9205: the folder of the cache cannot be written\n"
        "  got:      file exists\n"
        f"  at:       {tmp_path / 'taken'}\n"
        "  hint:     choose another folder with `--cache`, or use `--no-cache`"
    )


def test_two_compilers_may_share_a_folder(tmp_path: Path) -> None:
    caches = [opened(tmp_path)[0] for _ in range(4)]
    threads = [threading.Thread(target=cache.put, args=(KEY, recording(), IMAGES)) for cache in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened(tmp_path)[0].get(KEY) == recording()
