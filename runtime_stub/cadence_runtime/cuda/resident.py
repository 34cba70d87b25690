"""A plan on the device: its arena, images, functions and executables, from load to close.

    reserve arena -> weights, constants, snapshots -> images -> device variables -> functions -> executables

Everything that was taken is given back on `close`, and when any step of loading fails.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from cadence_runtime.cuda.build import build
from cadence_runtime.cuda.driver import Driver, Handle
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import CudaPart, DeviceGlobal, Graph, Kernel
from cadence_runtime.format.plan import Plan

Bytes = npt.NDArray[np.uint8]
WeightSource = Callable[[str], memoryview]
"""Returns the raw bytes of a weight by tensor name, without copying them where they can be mapped."""


class Resident:
    """One plan on one device. `base` is the arena's address; offsets of the plan are relative to it."""

    def __init__(
        self, driver: Driver, plan: Plan, part: CudaPart, weights: WeightSource, address: int | None = None
    ) -> None:
        self.driver, self.plan, self.part = driver, plan, part
        self.arena_bytes = max(section.offset + section.size_bytes for section in plan.sections)
        with ExitStack() as undo:
            self.base = driver.reserve(self.arena_bytes, part.base if address is None else address)
            undo.callback(driver.release, self.base, self.arena_bytes)
            self.stream = driver.new_stream()
            undo.callback(driver.destroy_stream, self.stream)
            self._fill_arena(weights)
            self._libraries = self._load_images(undo)
            self._write_globals()
            self._functions = self._find_functions()
            self._executables: dict[int, Handle] = {}
            undo.callback(self._destroy_executables)
            self._undo = undo.pop_all()

    def close(self) -> None:
        """Give back everything; the object is of no use afterwards."""
        self._undo.close()

    def ensure(self, capture: int) -> Handle:
        """Return the executable of a capture, building and uploading it the first time."""
        made = self._executables.get(capture)
        if made is None:
            made = build(self.driver, self.part.graphs[capture], self.part.kernels, self._functions, self.base)
            self._executables[capture] = made
            self.driver.prepare(made, self.stream)
        return made

    def launch(self, capture: int) -> None:
        """Launch a capture on the plan's stream, after everything launched before."""
        self.driver.launch(self.ensure(capture), self.stream)

    def graph(self, capture: int) -> Graph:
        """Return the graph of a capture."""
        return self.part.graphs[capture]

    def write(self, offset: int, data: Bytes) -> None:
        """Copy contiguous host bytes to an arena offset, behind the work that was launched before."""
        self.driver.upload(self.base + offset, int(data.ctypes.data), int(data.nbytes), self.stream)

    def read(self, offset: int, size: int) -> Bytes:
        """Copy bytes from an arena offset to a new host array, when all work launched before is done."""
        host = np.empty(size, np.uint8)
        self.driver.download(int(host.ctypes.data), self.base + offset, size, self.stream)
        return host

    def _section(self, name: str) -> int:
        return next(section.offset for section in self.plan.sections if section.name == name)

    def _fill_arena(self, weights: WeightSource) -> None:
        start = self._section("weights")
        for weight in self.plan.weights:
            source = self.plan.blobs[weight.blob] if weight.blob is not None else weights(weight.name)
            self._upload(start + weight.offset, source)
        start = self._section("constants")
        for constant in self.plan.constants:
            self._upload(start + constant.offset, self.plan.blobs[constant.blob])
        for snapshot in self.part.snapshots:
            if snapshot.blob is None:
                self.driver.fill(self.base + snapshot.offset, 0, snapshot.size_bytes, self.stream)
            else:
                self._upload(snapshot.offset, self.plan.blobs[snapshot.blob])

    def _upload(self, offset: int, source: bytes | memoryview) -> None:
        host = np.frombuffer(source, np.uint8)
        self.driver.upload(self.base + offset, int(host.ctypes.data), int(host.nbytes), self.stream)

    def _load_images(self, undo: ExitStack) -> list[Handle]:
        libraries = []
        for image in self.part.images:
            library = self.driver.load_library(self.plan.blobs[image.blob])
            undo.callback(self.driver.unload_library, library)
            libraries.append(library)
        return libraries

    def _write_globals(self) -> None:
        for variable in self.part.globals:
            address, size = self.driver.global_address(self._libraries[variable.image], variable.name)
            data = np.frombuffer(self._relocated(variable), np.uint8)
            if len(data) != size:
                raise DeviceError(
                    "CAD8003",
                    f"device variable `{variable.name}` has another size than the plan's",
                    expected=f"{len(data)} bytes",
                    got=f"{size} bytes",
                )
            self.driver.upload(address, int(data.ctypes.data), size, self.stream)

    def _relocated(self, variable: DeviceGlobal) -> bytes:
        data = bytearray(variable.data)
        for at, offset in variable.pointers:
            data[at : at + 8] = (self.base + offset).to_bytes(8, "little")
        return bytes(data)

    def _find_functions(self) -> list[Handle]:
        functions = []
        for kernel in self.part.kernels:
            function = self.driver.function(self._libraries[kernel.image], kernel.name)
            _require_layout(kernel, self.driver.param_info(function))
            for attribute, value in kernel.attributes:
                self.driver.set_attribute(function, attribute, value)
            functions.append(function)
        return functions

    def _destroy_executables(self) -> None:
        for executable in self._executables.values():
            self.driver.destroy(executable)
        self._executables.clear()


def _require_layout(kernel: Kernel, found: Sequence[tuple[int, int]]) -> None:
    """Refuse a kernel whose parameters in the image are not those the plan's bytes were laid out for."""
    declared = tuple(zip(kernel.param_offsets, kernel.param_sizes, strict=True))
    if tuple(found) != declared:
        raise DeviceError(
            "CAD8004",
            f"kernel `{kernel.name}` takes other parameters than the plan says",
            expected=f"(offset, size) {list(declared)}",
            got=f"{list(found)}",
            hint="the plan's image and launches do not belong together: compile it again",
        )
