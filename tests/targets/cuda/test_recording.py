"""What a recorder does around its captures, on an allocator and a stream made by hand."""

import gc
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cadencec.targets.cuda import capture, recording
from cadencec.targets.cuda.allocator import CHUNK_BYTES
from cadencec.targets.cuda.recording import CudaRecorder


def recorder(monkeypatch: pytest.MonkeyPatch, growing: list[bool]) -> tuple[CudaRecorder, list[str]]:
    """Return a recorder whose captures take more memory of the device where `growing` says so, and what it does."""
    done: list[str] = []
    allocator: Any = SimpleNamespace(mapped_bytes=CHUNK_BYTES, recording=False, trim=lambda: done.append("trim"))

    def record(job: Any, placements: Any) -> Any:
        done.append("capture")
        allocator.mapped_bytes += CHUNK_BYTES * growing.pop(0)

    made: CudaRecorder = CudaRecorder.__new__(CudaRecorder)
    made.allocator, made.bench = allocator, SimpleNamespace(run=lambda job, placement: done.append("run"))  # type: ignore[assignment]
    monkeypatch.setattr(made, "_record", record)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(recording.gc, "collect", lambda: done.append("collect"))
    return made, done


def test_garbage_is_collected_only_after_a_tape_that_took_more_memory_of_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, done = recorder(monkeypatch, [True, False, False])
    placements: Any = ("here", "there")
    for _ in range(3):
        made.record(None, placements)  # type: ignore[arg-type]
    one = ["run", "run", "capture"]
    assert done == [*one, "collect", "trim", *one, "trim", *one, "trim"]


def test_nothing_is_collected_within_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a collection would destroy there, a graph or an event, would end the capture."""
    seen: list[bool] = []
    graph = SimpleNamespace(capture_begin=lambda **mode: seen.append(gc.isenabled()), capture_end=lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda **kept: graph)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: torch.no_grad())
    monkeypatch.setattr(capture, "_play", lambda job, placement, boundaries: seen.append(gc.isenabled()) or [])
    bench: capture.Bench = capture.Bench.__new__(capture.Bench)
    bench.stream = None  # type: ignore[assignment]
    bench.capture(None, None)  # type: ignore[arg-type]
    assert seen == [False, False]
    assert gc.isenabled()
