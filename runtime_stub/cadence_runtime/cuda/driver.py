"""The one door to the CUDA driver: few calls, plain ints and bytes, every failure a DeviceError that names the call.

Everything else in the runtime speaks to `Driver`, so that a test can put a recorder in its place and compare the exact
sequence of calls. Handles (library, function, graph, node, executable, stream) are opaque objects to the callers;
device addresses are ints.
"""

import ctypes
from typing import Any, Protocol

from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import KernelNode, MemcpyNode, MemsetNode
from cadence_runtime.frozen import frozen

LIBRARY = "libcuda.so.1"

Handle = Any
"""An opaque driver object. It is made and used by the driver alone."""


@frozen
class DeviceInfo:
    """What compatibility depends on. `driver` is cuDriverGetVersion's number (13000 for CUDA 13.0); `threads` is how
    many threads can be on the device at once."""

    name: str
    compute_capability: tuple[int, int]
    driver: int
    free_bytes: int
    total_bytes: int
    threads: int


class Driver(Protocol):
    """The calls that loading and replaying a plan needs. Sizes are bytes, addresses device addresses."""

    def open(self, device: int) -> DeviceInfo:
        """Start the driver and make the device's primary context current."""

    def close(self) -> None:
        """Release the primary context."""

    def use(self) -> None:
        """Make the context current on the calling thread."""

    def reserve(self, size: int, address: int) -> int:
        """Reserve and map `size` bytes of device memory, at `address` if it is free; return where it is."""

    def release(self, address: int, size: int) -> None:
        """Unmap and free what `reserve` returned."""

    def allocate(self, size: int) -> int:
        """Allocate device memory outside of any arena."""

    def free(self, address: int) -> None:
        """Free what `allocate` returned."""

    def upload(self, address: int, source: int, size: int, stream: Handle) -> None:
        """Copy pageable host memory to the device, in the order of the stream; the source may be reused on return."""

    def download(self, destination: int, address: int, size: int, stream: Handle) -> None:
        """Copy device memory to the host in the order of the stream, and wait for it."""

    def copy(self, destination: int, source: int, size: int, stream: Handle) -> None:
        """Copy within the device, in the order of the stream."""

    def fill(self, address: int, value: int, size: int, stream: Handle) -> None:
        """Set every byte of a range to `value`, in the order of the stream."""

    def load_library(self, image: bytes) -> Handle:
        """Load a kernel image."""

    def unload_library(self, library: Handle) -> None:
        """Unload a kernel image."""

    def function(self, library: Handle, name: str) -> Handle:
        """Return the function of a kernel by its mangled name."""

    def set_attribute(self, function: Handle, attribute: int, value: int) -> None:
        """Set a CUfunction_attribute."""

    def param_info(self, function: Handle) -> tuple[tuple[int, int], ...]:
        """Return (offset, size) of each parameter."""

    def global_address(self, library: Handle, name: str) -> tuple[int, int]:
        """Return address and size of a device variable."""

    def new_graph(self) -> Handle:
        """Return an empty graph."""

    def add_kernel(self, graph: Handle, after: list[Handle], node: KernelNode, function: Handle, params: int) -> Handle:
        """Add a launch that runs after the nodes `after`; `params` is the host address of its array of parameter
        pointers, which the driver follows and copies before it returns."""

    def add_memset(self, graph: Handle, after: list[Handle], node: MemsetNode, address: int) -> Handle:
        """Add a fill at a device address."""

    def add_memcpy(self, graph: Handle, after: list[Handle], node: MemcpyNode, destination: int, source: int) -> Handle:
        """Add a device-to-device copy."""

    def add_edge(self, graph: Handle, before: Handle, after: Handle, data: tuple[int, int, int]) -> None:
        """Add one dependency that carries edge data: one a call, since some drivers give every edge of a bulk call
        the first one's data."""

    def destroy_graph(self, graph: Handle) -> None:
        """Destroy a graph that is not to be instantiated."""

    def instantiate(self, graph: Handle) -> Handle:
        """Return an executable of the graph and destroy the graph."""

    def destroy(self, executable: Handle) -> None:
        """Destroy an executable."""

    def new_stream(self) -> Handle:
        """Return a stream that does not wait for the default one."""

    def destroy_stream(self, stream: Handle) -> None:
        """Destroy a stream."""

    def prepare(self, executable: Handle, stream: Handle) -> None:
        """Upload an executable, so that its first launch costs what every launch costs."""

    def launch(self, executable: Handle, stream: Handle) -> None:
        """Launch an executable on a stream."""

    def synchronize(self, stream: Handle) -> None:
        """Wait for a stream; a kernel that failed is reported here."""

    def memory(self) -> tuple[int, int]:
        """Return free and total device memory."""


def system_driver() -> Driver:
    """Return the driver of this machine, not opened yet: no call of it is made. Raises DeviceError CAD8005 without
    cuda-bindings, CAD8002 without a driver."""
    try:
        from cadence_runtime.cuda.bindings import CudaDriver
    except ModuleNotFoundError as error:
        raise DeviceError(
            "CAD8005",
            "the package that speaks to the CUDA driver is not installed",
            expected="cuda-bindings",
            got=f"no module `{error.name}`",
            hint="pip install 'cadence-runtime[cuda]'",
        ) from None
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        hint = "install the NVIDIA driver, or use the cpu target"
        what = "no CUDA driver on this machine"
        raise DeviceError("CAD8002", what, expected=LIBRARY, got=str(error), hint=hint) from None
    return CudaDriver()


def driver_error(call: str, result: str, hint: str | None = None) -> DeviceError:
    """Return the error of a failed driver call; `result` is the CUresult's name."""
    return DeviceError("CAD8001", f"the CUDA driver refused `{call}`", expected="CUDA_SUCCESS", got=result, hint=hint)
