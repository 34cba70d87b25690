"""Would a CUDA plan load on a device? Pure arithmetic on what the plan says and what the driver says."""

from collections.abc import Iterator

from cadence_runtime.cuda.driver import DeviceInfo
from cadence_runtime.errors import IncompatibleError
from cadence_runtime.format.cuda import CudaPart
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.templates import node_counts

NODE_BYTES = 3072
"""Device memory that an executable takes for each node (measured: 34 MB for 11,207 nodes)."""


KERNELS_BYTES = "gpu.kernels.bytes"
"""What the environment of a plan calls the device memory that its kernels take beside executables, as predicted."""


def arena_bytes(plan: Plan) -> int:
    """Return the size of the plan's arena."""
    return max(section.offset + section.size_bytes for section in plan.sections)


READ_ONLY = ("weights", "constants")
"""The sections that no graph writes."""


def lent_bytes(plan: Plan) -> int:
    """Return how many bytes at the start of the arena lanes share: the sections that no graph writes, as far as they
    come first, as the compiler puts them."""
    return min(section.offset for section in plan.sections if section.name not in READ_ONLY)


def graph_bytes(part: CudaPart) -> tuple[int, ...]:
    """Return what the executable of each graph takes on the device, as predicted."""
    return tuple(NODE_BYTES * count for count in node_counts(part.graphs))


def executable_bytes(part: CudaPart) -> int:
    """Return what the executables of all graphs take on the device, as predicted."""
    return sum(graph_bytes(part))


def kernels_bytes(plan: Plan) -> int | None:
    """Return what the kernels take on the device beside executables, as predicted by the compiler; None for a plan of a
    compiler that did not."""
    found = dict(plan.provenance.environment).get(KERNELS_BYTES, "")
    return int(found) if found.isdecimal() else None


def device_reasons(plan: Plan, part: CudaPart, info: DeviceInfo) -> Iterator[IncompatibleError]:
    """Yield why the plan does not load on the device."""
    if info.compute_capability != part.compute_capability:
        yield IncompatibleError(
            "CAD6010",
            "the plan's kernels are for another compute capability",
            expected=_capability(part.compute_capability),
            got=f"{_capability(info.compute_capability)} ({info.name})",
            hint="compile the spec on a GPU of this kind",
        )
    if info.driver < part.driver:
        yield IncompatibleError(
            "CAD6011",
            "the driver is older than the one that the plan was made with",
            expected=f"CUDA {_version(part.driver)} or newer",
            got=f"CUDA {_version(info.driver)}",
            hint="update the NVIDIA driver",
        )
    largest = max(graph_bytes(part), default=0)
    arena, kernels = arena_bytes(plan), kernels_bytes(plan) or 0
    needed = arena + kernels + largest
    if needed > info.free_bytes:
        yield IncompatibleError(
            "CAD6012",
            "the device has too little free memory",
            expected=f"{needed} bytes: {arena} of arena, {kernels} of kernels and {largest} of the largest executable",
            got=f"{info.free_bytes} bytes free of {info.total_bytes}",
            hint="close what else runs on the device",
        )


def _capability(value: tuple[int, int]) -> str:
    return f"sm_{value[0]}{value[1]}"


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
