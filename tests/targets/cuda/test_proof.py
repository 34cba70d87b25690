"""What a replay needs of library memory, on a replay made by hand."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cadence_runtime.errors import TargetError
from cadencec.targets.cuda import proof
from cadencec.targets.cuda.allocator import Buffer
from cadencec.targets.cuda.placement import SlotName

OUT = SlotName("output", "y")
READ, WORKSPACE, IDLE = (Buffer(index, index, 8, 8, 0) for index in range(3))


class Device:
    """Memory by address, and a capture whose result is what stands in the first buffer, plus one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, content: int, reads_zero_as: int | None = None) -> None:
        self.memory = {0: torch.full((8,), content, dtype=torch.uint8), 1: torch.ones(8, dtype=torch.uint8)}
        self.memory[2] = torch.full((8,), 9, dtype=torch.uint8)
        self.reads_zero_as, self.placement = reads_zero_as, SimpleNamespace(storages={OUT: torch.zeros(8)})
        generator = SimpleNamespace(get_state=lambda: None, set_state=lambda state: None)
        monkeypatch.setattr(torch.cuda, "default_generators", (generator,))
        monkeypatch.setattr(proof, "_copied", lambda buffer: self.memory[buffer.address].clone())
        monkeypatch.setattr(proof, "_fill", self.fill)

    def fill(self, buffer: Buffer, content: torch.Tensor | int) -> None:
        memory = self.memory[buffer.address]
        memory.copy_(content) if isinstance(content, torch.Tensor) else memory.fill_(content)

    def replay(self) -> None:
        self.memory[1].fill_(3)
        read = self.memory[0].float()
        if self.reads_zero_as is not None:
            read = torch.where(read == 0, float(self.reads_zero_as), read)
        self.placement.storages[OUT] = read + 1

    def prove(self, *library: Buffer) -> proof.Proof:
        graph = SimpleNamespace(instantiate=lambda: None, replay=self.replay)
        bench: Any = SimpleNamespace(run=lambda job, placement: self.replay())
        job: Any = SimpleNamespace(sample={}, tape=SimpleNamespace(stage="step"))
        captured: Any = SimpleNamespace(graph=graph)
        return proof.prove(bench, job, self.placement, captured, library, ())  # type: ignore[arg-type]


def test_what_is_neither_read_nor_written_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Device(monkeypatch, content=5).prove(READ, WORKSPACE, IDLE)
    assert found == proof.Proof(zeroed=False, idle=frozenset([2]))


def test_zeros_serve_where_they_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Device(monkeypatch, content=0).prove(READ, IDLE) == proof.Proof(zeroed=True, idle=frozenset([1]))
    found = Device(monkeypatch, content=7, reads_zero_as=7).prove(IDLE, READ)
    assert found == proof.Proof(zeroed=True, idle=frozenset([0]))


def test_a_replay_that_reads_what_nobody_keeps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    device, count = Device(monkeypatch, content=5), iter(range(100))
    plain = device.replay

    def drifting() -> None:
        plain()
        device.placement.storages[OUT] = device.placement.storages[OUT] + next(count)

    monkeypatch.setattr(device, "replay", drifting)
    with pytest.raises(TargetError, match="CAD4117"):
        device.prove(READ)
