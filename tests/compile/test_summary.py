"""What `compile` says of a CUDA plan: nodes, and what it takes on the device."""

from pathlib import Path

from cadence_runtime.check import open_plan
from cadence_runtime.cuda.compatibility import NODE_BYTES, arena_bytes
from cadencec.compile.summary import device, device_row

PLANS = Path(__file__).parents[2] / "plans"


def test_a_cuda_plan_tells_its_nodes_and_what_is_resident() -> None:
    plan = open_plan(PLANS / "growing-kv-cat.cuda-sm90.format-1.0.2026-12-01.plan")
    arena = arena_bytes(plan)
    assert device(plan) == {
        "graphs": 14,
        "nodes": 66,
        "arena_bytes": arena,
        "executables_bytes": 66 * NODE_BYTES,
        "kernels_bytes": None,
        "resident_bytes": arena + 66 * NODE_BYTES,
    }
    (line,) = device_row(plan).values()
    assert line.startswith("66 nodes in 14 graphs; ")
    assert line.endswith("executables 203 kB, kernels not known")


def test_a_cpu_plan_has_nothing_on_a_device() -> None:
    plan = open_plan(PLANS / "growing-kv-cat.cpu.format-1.0.2026-12-01.plan")
    assert device(plan) is None
    assert device_row(plan) == {}
