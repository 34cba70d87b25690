"""Captures on disk: what goes in comes out, damage is told and made anew, and a stopped compile goes on."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cadence_runtime.cuda.driver import DeviceInfo
from cadence_runtime.errors import TargetError, UsageError
from cadence_runtime.format.plan import TensorForm
from cadence_runtime.format.tape import Binding, Literal, Op, Storage, Tape, View
from cadencec.compile.job import Request, cache_of
from cadencec.targets.backend import Finding
from cadencec.targets.cuda import cache as cache_module
from cadencec.targets.cuda import target
from cadencec.targets.cuda.cache import CaptureCache, key_of
from cadencec.targets.cuda.entry import summary_of
from cadencec.targets.cuda.placement import Slot, SlotName
from tests.targets.cuda.recordings import DIGEST, IMAGE, IMAGES, TAPE, recording

KEY = "ab" * 32


def opened(folder: Path) -> tuple[CaptureCache, list[str]]:
    told: list[str] = []
    return CaptureCache(folder, told.append), told


def test_what_goes_in_comes_out_in_another_process(tmp_path: Path) -> None:
    opened(tmp_path)[0].put(KEY, recording(), IMAGES)
    cache, told = opened(tmp_path)
    assert cache.find(KEY) == summary_of(recording())
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
    assert opened(tmp_path)[0].get(KEY) is None
    cache, told = opened(tmp_path)
    assert cache.find(KEY) is None
    if (damage, place) == (Path.unlink, f"captures/{KEY}"):
        assert told == []
    else:
        (message,) = told
        assert message.startswith(f"capture {KEY[:12]} of {tmp_path} is damaged (")
        assert message.endswith("): made anew")
    cache.put(KEY, recording(), IMAGES)
    assert opened(tmp_path)[0].get(KEY) == recording()


def test_a_capture_that_is_there_is_read_in_full_once_and_that_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, Recorder(), monkeypatch).add(finding())
    read: list[object] = []
    monkeypatch.setattr(cache_module, "from_json", lambda *parts: read.append(parts) or recording(1))
    compiler = made(tmp_path, Recorder(stop=0), monkeypatch)
    compiler.add(finding())
    assert read == []
    ((key, captured),) = compiler._graphs.items()
    assert captured.summary == summary_of(compiler.cache.taken(key))
    assert len(read) == 1


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
    info = DeviceInfo("fake", (9, 0), 13000, 1 << 40, 1 << 41, 1 << 18)
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


FORM = TensorForm("float32", (2,), (1,))
VIEW = View(0, "float32", (2,), (1,), 0)
OP = Op("aten::relu", (VIEW,), (), (replace(VIEW, storage=1),), (0,), (1,), "model.py:1")
STORAGES = (Storage("input", "x", 8), Storage("scratch", "", 8))
KEYED = replace(
    finding(),
    tape=Tape("step", STORAGES, (Binding("x", VIEW),), (), (OP,), (Binding("y", replace(VIEW, storage=1)),), ()),
    outputs=(FORM,),
    before={"kv": FORM},
    after={"kv": FORM},
    owners=("kv",),
)
SLOTS = (Slot(SlotName("input", "x"), 8), Slot(SlotName("leaf", "kv"), 8))
MACHINE = {"cublas": "13.1", "cuda": "13.0", "cudnn": "91900", "driver": "13000", "gpu": "a", "sm": "(9, 0)"}


def capture_key(one: Finding = KEYED, slots: Sequence[Slot] = SLOTS, **machine: str) -> str:
    return target.capture_key(one, slots, tuple(sorted((MACHINE | machine).items())))


def with_tape(**parts: Any) -> Finding:
    return replace(KEYED, tape=replace(KEYED.tape, **parts))


def with_op(**parts: Any) -> Finding:
    return with_tape(ops=(replace(OP, **parts),))


ANOTHER = {
    "stage": with_tape(stage="other"),
    "op": with_op(name="aten::tanh"),
    "source line": with_op(source="model.py:2"),
    "literal": with_op(args=(VIEW, Literal("int", "1"))),
    "view": with_op(args=(replace(VIEW, sizes=(1,)),)),
    "op added": with_tape(ops=(OP, OP)),
    "constant": with_tape(storages=(Storage("constant", "ab" * 32, 8), STORAGES[1])),
    "another constant": with_tape(storages=(Storage("constant", "cd" * 32, 8), STORAGES[1])),
    "scratch size": with_tape(storages=(STORAGES[0], Storage("scratch", "", 16))),
    "numerics": replace(KEYED, numerics={"cudnn.deterministic": "true"}),
    "numerics added": replace(KEYED, numerics={**KEYED.numerics, "cudnn.benchmark": "true"}),
    "form before": replace(KEYED, before={"kv": replace(FORM, strides=(2,))}),
    "form of an output": replace(KEYED, outputs=(replace(FORM, dtype="float16"),)),
    "owner": replace(KEYED, owners=("v",)),
}


def test_every_ingredient_alone_makes_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"none": capture_key()} | {name: capture_key(other) for name, other in ANOTHER.items()}
    keys |= {f"machine: {name}": capture_key(**{name: "another"}) for name in (*MACHINE, "cufft")}
    moved = (replace(SLOTS[0], size_bytes=16), replace(SLOTS[0], name=SlotName("weight", "x")))
    keys |= {f"slot {number}": capture_key(slots=(slot, SLOTS[1])) for number, slot in enumerate(moved)}
    keys |= {"slots in another order": capture_key(slots=SLOTS[::-1]), "a slot less": capture_key(slots=SLOTS[:1])}
    for place, name, value in (
        (target, "__version__", "9.9.9"),
        (torch, "__version__", "2.13.0+other"),
        (torch.version, "git_version", "another"),
        (cache_module, "VERSION", 99),
        (cache_module, "code_digest", lambda: "another"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            keys[f"{place.__name__}.{name}"] = capture_key()
    for prefix in target.SWITCHES:
        with monkeypatch.context() as patch:
            patch.setenv(f"{prefix}_A_SWITCH", "1")
            keys[f"switch {prefix}"] = capture_key()
    same = [(one, other) for one in keys for other in keys if one < other and keys[one] == keys[other]]
    assert same == []
    assert keys["none"] == capture_key()


def test_values_that_a_capture_does_not_hold_are_no_part_of_its_key() -> None:
    other = replace(KEYED, weights={"w": torch.ones(2)}, inputs={"x": torch.ones(2)}, leaves={"kv": torch.ones(2)})
    assert capture_key(other) == capture_key()


def test_ops_of_other_libraries_are_captured_by_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = with_op(name="mylib::scale")
    assert capture_key(foreign) == capture_key(foreign)
    before = capture_key(foreign), capture_key()
    monkeypatch.setattr(target, "PROCESS", "another process")
    assert (capture_key(foreign) != before[0], capture_key()) == (True, before[1])


def test_the_code_that_makes_captures_is_all_there() -> None:
    seen = {path.name for folder in cache_module.SOURCES for path in folder.rglob("*.py")}
    assert seen >= {"target.py", "capture.py", "cache.py", "interpret.py", "operands.py", "bindings.py", "tapes.py"}


@pytest.mark.parametrize(
    "change",
    [
        lambda info, one: (replace(info, driver=13010), one),
        lambda info, one: (replace(info, compute_capability=(9, 1)), one),
        lambda info, one: (replace(info, name="another"), one),
        lambda info, one: (info, finding("true")),
    ],
)
def test_what_another_compile_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[..., Any]
) -> None:
    made(tmp_path, Recorder(), monkeypatch).add(finding())
    again = Recorder()
    compiler = made(tmp_path, again, monkeypatch)
    compiler.info, other = change(compiler.info, finding())
    compiler.add(other)
    assert again.count == 1


def test_another_version_of_a_library_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Recorder()
    for version in ("13.1.0", "13.1.1"):
        monkeypatch.setattr(target, "installed_versions", lambda version=version: {"cublas": version})
        made(tmp_path, again, monkeypatch).add(finding())
    assert again.count == 2


def test_a_capture_under_the_name_of_another_is_made_anew(tmp_path: Path) -> None:
    other = "cd" * 32
    opened(tmp_path)[0].put(KEY, recording(1), IMAGES)
    opened(tmp_path)[0].put(other, recording(2), IMAGES)
    (tmp_path / "captures" / other).replace(tmp_path / "captures" / KEY)
    cache, told = opened(tmp_path)
    assert cache.get(KEY) is None
    assert told == [f"capture {KEY[:12]} of {tmp_path} is damaged (its digest differs): made anew"]


def test_what_others_leave_in_the_folder_does_not_matter(tmp_path: Path) -> None:
    opened(tmp_path)[0].put(KEY, recording(), IMAGES)
    for folder in ("captures", "objects"):
        (tmp_path / folder / f".{KEY}.0a1b2c3d.tmp").write_bytes(b"half of a file")
        (tmp_path / folder / "README").write_text("not ours")
    cache, told = opened(tmp_path)
    assert (cache.get(KEY), told) == (recording(), [])


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
