"""What the CUDA target refuses, in full words, without a device: the driver's answers are planted."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from cuda.bindings import driver as cu

from cadence_runtime.errors import TargetError
from cadencec.targets.cuda import images, nodes, proof, recording, target


def refused(call: Any, *arguments: Any) -> str:
    with pytest.raises(TargetError) as caught:
        call(*arguments)
    return str(caught.value)


def test_a_profiler_in_the_way() -> None:
    collector = images.ImageCollector.__new__(images.ImageCollector)
    collector._cupti = SimpleNamespace(cuptiSubscribe=lambda: 39)  # type: ignore[assignment]
    assert refused(collector._check, "cuptiSubscribe") == (
        "CAD4101: the profiling interface refused `cuptiSubscribe`\n"
        "  expected: CUPTI_SUCCESS\n"
        "  got:      CUptiResult 39\n"
        "  hint:     no profiler may be attached to the compiler's process"
    )


def test_no_profiling_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "find_spec", lambda name: None)
    monkeypatch.setattr(images.Path, "glob", lambda self, pattern: iter(()))
    assert refused(images._find_cupti) == (
        "CAD4102: no CUPTI library was found\n"
        "  expected: libcupti.so beside torch's CUDA wheels or under the CUDA toolkit\n"
        "  got:      none\n"
        "  hint:     pip install nvidia-cuda-cupti"
    )


def test_a_process_that_has_used_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert refused(target.start) == (
        "CAD4103: this process has used CUDA before the compiler began\n"
        "  expected: a fresh process\n"
        "  got:      an initialised device\n"
        "  hint:     run `cadencec compile --target cuda`, which is one"
    )


def planted(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    monkeypatch.setattr(nodes, "call", lambda name, *arguments: answers[name])


@pytest.mark.parametrize("kind", ["HOST", "GRAPH", "MEM_ALLOC", "EVENT_RECORD", "CONDITIONAL"])
def test_nodes_that_no_plan_can_hold(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    planted(monkeypatch, cuGraphNodeGetType=getattr(cu.CUgraphNodeType, f"CU_GRAPH_NODE_TYPE_{kind}"))
    assert refused(nodes._read_node, None, nodes._Functions(), "aten::mm model.py:3") == (
        f"CAD4110: a graph node of kind {kind.lower()} cannot be stored in a plan\n"
        "  expected: kernel, memset or memcpy nodes\n"
        f"  got:      CU_GRAPH_NODE_TYPE_{kind}\n"
        "  at:       aten::mm model.py:3\n"
        "  hint:     keep host callbacks, allocations and events out of the stage"
    )


def test_a_copy_from_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = cu.CUmemorytype
    record = SimpleNamespace(srcMemoryType=memory.CU_MEMORYTYPE_HOST, dstMemoryType=memory.CU_MEMORYTYPE_DEVICE)
    planted(monkeypatch, cuGraphMemcpyNodeGetParams=record)
    assert refused(nodes._read_memcpy, None, "aten::_to_copy model.py:4") == (
        "CAD4111: a copy between host and device is part of the stage\n"
        "  expected: copies within the device\n"
        "  got:      memory of kind device, host\n"
        "  at:       aten::_to_copy model.py:4\n"
        "  hint:     create the tensor on the device, or pass it as an input"
    )


def extra(*words: int) -> Any:
    return (ctypes.c_uint64 * len(words))(*words)


def test_parameters_are_found_whatever_the_order_of_their_list() -> None:
    for entries in (extra(1, 0x1234, 2, 0x5678, 0), extra(2, 0x5678, 1, 0x1234, 0)):
        assert nodes._extra_buffer(ctypes.addressof(entries)) == 0x1234


def test_a_list_without_parameters() -> None:
    entries = extra(2, 0x5678, 0)
    assert refused(nodes._extra_buffer, ctypes.addressof(entries)) == (
        "CAD4112: a launch has parameters but no buffer that holds them\n  expected: tag 1\n  got:      tag 0"
    )


def test_generator_words_that_are_not_found() -> None:
    assert recording.match_philox({7: 1, 9: 2}, 7, 9, 4) == recording.Philox(1, 2, 4)
    assert refused(recording.match_philox, {7: 1}, 7, 9, 4) == (
        "CAD4115: the generator's words of a capture that draws were not found\n"
        "  expected: two buffers of 8 bytes that torch fills before a replay\n"
        "  got:      1 buffers of 8 bytes\n"
        "  hint:     declare the noise as an input of the stage"
    )


def test_a_kernel_whose_image_was_not_seen() -> None:
    assert refused(recording.choose_image, {}, SimpleNamespace(name="scale")) == (
        "CAD4116: the image of kernel `scale` is not certain\n"
        "  expected: one loaded image that defines it\n"
        "  got:      0\n"
        "  hint:     its module was loaded before the compiler began"
    )


def test_a_replay_with_other_bits() -> None:
    assert str(proof.unequal("step", ["audio", "kv"])) == (
        "CAD4117: a capture replays other bits than its tape\n"
        "  expected: equal outputs and state\n"
        "  got:      `audio` differs, `kv` differs\n"
        "  at:       stage `step`\n"
        "  hint:     a kernel reads memory that nothing in the capture writes"
    )
