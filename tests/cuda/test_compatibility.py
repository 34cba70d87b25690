"""Planted mismatches of device and plan: every reason, without a device."""

from types import SimpleNamespace
from typing import Any

from cadence_runtime.cuda.compatibility import NODE_BYTES, device_reasons
from cadence_runtime.cuda.driver import DeviceInfo
from tests.cuda.test_resident import PART, plan

HERE = DeviceInfo("NVIDIA H200", (9, 0), 13000, 1 << 30, 1 << 37, 1 << 18)


def reasons(info: DeviceInfo) -> list[str]:
    return [str(error) for error in device_reasons(plan(), PART, info)]


def test_the_device_of_the_build_has_no_reasons() -> None:
    assert reasons(HERE) == []


def test_a_newer_driver_is_no_reason() -> None:
    assert reasons(DeviceInfo("NVIDIA H200", (9, 0), 13010, 1 << 30, 1 << 37, 1 << 18)) == []


def test_every_reason_at_once() -> None:
    other: Any = SimpleNamespace(
        name="NVIDIA A100", compute_capability=(8, 0), driver=12040, free_bytes=100, total_bytes=200
    )
    assert reasons(other) == [
        "CAD6010: the plan's kernels are for another compute capability\n"
        "  expected: sm_90\n"
        "  got:      sm_80 (NVIDIA A100)\n"
        "  hint:     compile the spec on a GPU of this kind",
        "CAD6011: the driver is older than the one that the plan was made with\n"
        "  expected: CUDA 13.0 or newer\n"
        "  got:      CUDA 12.4\n"
        "  hint:     update the NVIDIA driver",
        "CAD6012: the device has too little free memory\n"
        f"  expected: {1536 + 4096 + NODE_BYTES} bytes: 1536 of arena, 4096 of kernels and {NODE_BYTES} of the largest"
        " executable\n"
        "  got:      100 bytes free of 200\n"
        "  hint:     close what else runs on the device",
    ]
