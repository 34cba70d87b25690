"""The rules of a plan's CUDA part: whatever a graph touches lies inside the arena, by the plan's own numbers.

What only the driver knows (that a kernel's parameters have these sizes, that a function exists) is compared at load.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from cadence_runtime.errors import PlanError
from cadence_runtime.format import check_nodes
from cadence_runtime.format.check_families import family_errors
from cadence_runtime.format.check_launches import launch_errors
from cadence_runtime.format.check_nodes import ascending, fault, outside
from cadence_runtime.format.cubin import Cubin, CubinError, read_cubin
from cadence_runtime.format.cuda import CudaPart, DeviceGlobal, Kernel
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.strict_json import shown
from cadence_runtime.format.templates import Graphs, op_names
from cadence_runtime.format.words import WORD_BYTES

MAX_PARAMS_BYTES = 32764
FUNCTION_ATTRIBUTES = frozenset([8, 9, 11, 12, 13, 14, 15])
"""What may be set of a function (CUfunction_attribute): shared memory and clusters."""


def graph_errors(plan: Plan) -> Iterator[PlanError]:
    """Yield CAD5701 to CAD5708; nothing for a plan without a CUDA part."""
    part = plan.cuda
    if part is None:
        return
    size = max((section.offset + section.size_bytes for section in plan.sections), default=0)
    yield from launch_errors(plan, part)
    yield from _bad_part(plan, part, size)
    if isinstance(part.graphs, Graphs):
        yield from family_errors(part, part.graphs, size)
        return
    seen: set[int] = set()
    for number, graph in enumerate(part.graphs):
        yield from check_nodes.graph_errors(part, graph, size, f"graph {number}", seen)


def _bad_names(part: CudaPart) -> Iterator[PlanError]:
    """Names go into messages and onto screens as they are."""
    names = {
        *(image.library for image in part.images),
        *(variable.name for variable in part.globals),
        *(kernel.name for kernel in part.kernels),
        *(snapshot.name for snapshot in part.snapshots),
        *op_names(part.graphs),
    }
    for name in sorted(names):
        if not name.isprintable():
            yield fault("CAD5707", "a name of the CUDA part is not printable", "printable text", shown(name))
            return


def _bad_part(plan: Plan, part: CudaPart, size: int) -> Iterator[PlanError]:
    yield from _bad_names(part)
    cubins: dict[int, Cubin] = {}
    for number, image in enumerate(part.images):
        content = plan.blobs[image.blob]
        try:
            if isinstance(content, bytes):  # an outline has lengths only
                cubins[number] = read_cubin(content)
        except CubinError as error:
            yield fault("CAD5703", "an image is no cubin", "an ELF file of NVIDIA's", str(error), f"image {number}")
    for variable in part.globals:
        yield from _bad_variable(part, variable, size)
    for kernel in part.kernels:
        yield from _bad_kernel(part, kernel, cubins)
    for snapshot in part.snapshots:
        at = f"snapshot {shown(snapshot.name)}"
        yield from outside("a snapshot", snapshot.offset, snapshot.size_bytes, size, at)
        if snapshot.blob is None:
            continue
        if not 0 <= snapshot.blob < len(plan.blobs) or len(plan.blobs[snapshot.blob]) != snapshot.size_bytes:
            expected = f"a blob of {snapshot.size_bytes} bytes"
            yield fault("CAD5703", "a snapshot has no blob of its size", expected, f"blob {snapshot.blob}", at)


def _bad_variable(part: CudaPart, variable: DeviceGlobal, size: int) -> Iterator[PlanError]:
    at = f"device variable {shown(variable.name)}"
    if not 0 <= variable.image < len(part.images):
        yield fault("CAD5703", "an image is not there", f"0 to {len(part.images) - 1}", str(variable.image), at)
    places = [place for place, _ in variable.pointers]
    if any(after < before + WORD_BYTES for before, after in pairwise(places)):
        yield fault("CAD5704", "pointers of a variable share bytes", "sorted, 8 bytes each", shown(places), at)
    for place, offset in variable.pointers:
        if not 0 <= place <= len(variable.data) - WORD_BYTES:
            expected = f"8 bytes within {len(variable.data)}"
            yield fault("CAD5704", "a pointer lies outside of its variable", expected, f"from byte {place}", at)
        yield from outside("a pointer's target", offset, 0, size, at)


def _bad_kernel(part: CudaPart, kernel: Kernel, cubins: Mapping[int, Cubin]) -> Iterator[PlanError]:
    at = f"kernel {shown(kernel.name)}"
    if not 0 <= kernel.image < len(part.images):
        yield fault("CAD5703", "an image is not there", f"0 to {len(part.images) - 1}", str(kernel.image), at)
    declared = tuple(zip(kernel.param_offsets, kernel.param_sizes, strict=True))
    ends = [offset + length for offset, length in declared]
    if any(end > offset for end, offset in zip(ends, kernel.param_offsets[1:], strict=False)):
        expected, got = "ascending, side by side", shown(kernel.param_offsets)
        yield fault("CAD5703", "the parameters of a kernel overlap", expected, got, at)
    if max(ends, default=0) > MAX_PARAMS_BYTES:
        expected, got = f"at most {MAX_PARAMS_BYTES} bytes", f"{max(ends)} bytes"
        yield fault("CAD5703", "a kernel has more parameters than a device takes", expected, got, at)
    if kernel.image in cubins:
        yield from _bad_code(kernel, declared, cubins[kernel.image], at)
    names = [name for name, _ in kernel.attributes]
    if not ascending(names) or not FUNCTION_ATTRIBUTES.issuperset(names):
        expected = f"some of {sorted(FUNCTION_ATTRIBUTES)}, sorted"
        yield fault("CAD5706", "the attributes of a kernel make no sense", expected, shown(names), at)
    if any(not -(2**31) <= value < 2**31 for _, value in kernel.attributes):
        got = shown([value for _, value in kernel.attributes])
        yield fault("CAD5706", "the attributes of a kernel make no sense", "32 bits each", got, at)


def _bad_code(kernel: Kernel, declared: tuple[tuple[int, int], ...], cubin: Cubin, at: str) -> Iterator[PlanError]:
    """Hold a kernel to what its image says; one of which the image does not tell the parameters is asked at load."""
    if not cubin.has_kernel(kernel.name):
        yield fault("CAD5703", "a kernel is not in its image", f"section `.text.{kernel.name[:60]}`", "none", at)
    parameters = cubin.parameters(kernel.name)
    if parameters and parameters != declared:
        what = "a kernel takes other parameters than its image says"
        yield fault("CAD5703", what, shown(parameters), shown(declared), at)
