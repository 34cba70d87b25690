"""The whole compiler for CUDA on a CPU: recordings are made by hand, everything around them is real."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cadence_runtime.check import open_plan
from cadence_runtime.cuda.driver import DeviceInfo
from cadence_runtime.cuda.player import CudaPlayer
from cadence_runtime.format.cuda import KernelNode
from cadence_runtime.format.writer import encode_plan
from cadence_runtime.session import LoadedPlan
from cadencec.compile.job import Request, compile_file
from cadencec.plan import compile as plan_compile
from cadencec.targets.cuda import target
from cadencec.targets.cuda.cache import CaptureCache
from cadencec.targets.cuda.nodes import RawKernel
from cadencec.targets.cuda.placement import SCRATCH, Slot
from cadencec.targets.cuda.recording import CudaRecording, ScratchBuffer
from cadencec.targets.cuda.relocate import FreeGraph, FreeKernel, Pointer
from tests.cases.driver import HERE
from tests.cuda.fake_driver import FakeDriver
from tests.format.cubins import cubin

CUBIN = cubin({f"takes_{count}": tuple((8 * index, 8) for index in range(count)) for count in range(1, 20)})
DIGEST = hashlib.sha256(CUBIN).hexdigest()
IMAGES = {DIGEST: CUBIN}
BASE = 0x6F00_0000_0000


class Recorder:
    """Records each tape as one launch that takes the address of each buffer, and of 256 bytes of scratch."""

    def __init__(self) -> None:
        self.count = 0

    def record(self, job: Any, placements: tuple["Placed", "Placed"]) -> CudaRecording:
        self.count += 1
        buffers = [*range(len(placements[0].slots)), SCRATCH]
        offsets = tuple(8 * index for index in range(len(buffers)))
        name = f"takes_{len(buffers)}"
        raw = RawKernel(name, None, (1, 1, 1), (32, 1, 1), 0, offsets, (8,) * len(buffers), b"", (), ((9, -1),))
        node = FreeKernel(raw, bytes(8 * len(buffers)))
        pointers = tuple(Pointer(0, 8 * index, buffer, 0) for index, buffer in enumerate(buffers))
        return CudaRecording(
            FreeGraph((node,), pointers, ()), (0,), (ScratchBuffer(SCRATCH, 256, 0, 1),), (), {name: DIGEST}, (), None
        )


class Placed:
    """Slots that stand nowhere."""

    def __init__(self, allocator: object, slots: list[Slot]) -> None:
        self.slots = slots


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Recorder], None]:
    """Return a function that makes compilations record with a recorder."""
    generator = SimpleNamespace(get_state=lambda: None, set_state=lambda state: None)
    monkeypatch.setattr(torch.cuda, "default_generators", (generator,))
    monkeypatch.setattr(plan_compile, "system_driver", lambda: None)
    monkeypatch.setattr(target, "Placement", Placed)
    made = torch.random.fork_rng
    monkeypatch.setattr(plan_compile.torch.random, "fork_rng", lambda devices=(): made(devices=[]))

    def use(recorder: Recorder) -> None:
        def start(wanted: str, cache: Path | None) -> Any:
            assert (wanted, cache is not None) == ("cuda", True)
            told: list[str] = []
            kept = CaptureCache(cache, told.append)  # type: ignore[arg-type]
            info = DeviceInfo("fake", (9, 0), 13000, 1 << 40, 1 << 41, 1 << 18)
            held: Any = SimpleNamespace(images=IMAGES, base=BASE)
            rest: Any = recorder
            return target.CudaTarget(info, kept, told, held, held, rest, device=torch.device("cpu"))

        monkeypatch.setattr(plan_compile, "_backend", start)

    return use


def compiled(folder: Path, cache: Path) -> Path:
    folder.mkdir()
    spec = str(HERE / "01_growing_kv_cat.yaml")
    plan = folder / "case.plan"
    compile_file(Request(spec, str(plan), target="cuda", embed_weights=True, cache=str(cache)), lambda *_: None)
    return plan


def test_a_compile_ends_in_a_plan_that_loads_and_runs(tmp_path: Path, backend: Callable[[Recorder], None]) -> None:
    recorder = Recorder()
    backend(recorder)
    plan = open_plan(compiled(tmp_path / "one", tmp_path / "cache"))
    part = plan.cuda
    assert part is not None
    assert len(part.graphs) == len(plan.captures) == 14
    assert (part.base, [image.library for image in part.images]) == (BASE, ["unknown"])
    layouts = {k.name: tuple(zip(k.param_offsets, k.param_sizes, strict=True)) for k in part.kernels}
    driver = FakeDriver(layouts=layouts)
    driver.open(0)
    with LoadedPlan(plan, CudaPlayer(plan, driver, lambda name: ())) as loaded:
        (record,) = loaded.session().push("frame", x=np.ones((1, 1, 16), np.float32))
        assert record.outputs["y"].shape == (1, 1, 16)


def test_pointers_lead_to_the_slots_of_the_plan(tmp_path: Path, backend: Callable[[Recorder], None]) -> None:
    backend(Recorder())
    plan = open_plan(compiled(tmp_path / "one", tmp_path / "cache"))
    part = plan.cuda
    assert part is not None
    start = {section.name: section.offset for section in plan.sections}
    number = max(range(14), key=lambda index: plan.captures[index].key.stage == "step")
    capture = plan.captures[number]
    graph = part.graphs[number]
    (node,) = graph.nodes
    assert isinstance(node, KernelNode)
    assert node.params == bytes(8 * len(graph.relocations))
    places = {entry.offset for entry in graph.relocations}
    assert {start["weights"] + weight.offset for weight in plan.weights} <= places
    assert start["io"] + capture.input_offsets[0] in places
    assert start["io"] + capture.output_offsets[0] in places
    assert {start["state"] + leaf.slot_offset for leaf in plan.leaves} <= places
    assert start["scratch"] in places


def test_a_second_compile_captures_nothing_and_gives_the_same_bytes(
    tmp_path: Path, backend: Callable[[Recorder], None]
) -> None:
    first, second, apart = Recorder(), Recorder(), Recorder()
    backend(first)
    one = compiled(tmp_path / "one", tmp_path / "cache").read_bytes()
    backend(second)
    other = compiled(tmp_path / "other", tmp_path / "cache").read_bytes()
    backend(apart)
    third = compiled(tmp_path / "third", tmp_path / "another").read_bytes()
    assert (first.count, second.count, apart.count) == (first.count, 0, first.count)
    assert 0 < first.count <= 14
    assert one == other == third


def test_a_damaged_cache_is_told_in_the_report(tmp_path: Path, backend: Callable[[Recorder], None]) -> None:
    backend(Recorder())
    one = compiled(tmp_path / "one", tmp_path / "cache")
    damaged = sorted((tmp_path / "cache" / "captures").iterdir())[0]
    damaged.write_bytes(b"nothing")
    again = Recorder()
    backend(again)
    request = Request(
        str(HERE / "01_growing_kv_cat.yaml"),
        str(tmp_path / "again.plan"),
        target="cuda",
        embed_weights=True,
        cache=str(tmp_path / "cache"),
    )
    report = compile_file(request, lambda *_: None)
    assert again.count == 1
    assert any(warning.endswith("(its digest differs): made anew") for warning in report.compiled.warnings)
    assert (tmp_path / "again.plan").read_bytes() == one.read_bytes()
    assert encode_plan(report.compiled.plan)
