"""What the lanes of a plan have in common on a device: weights and constants, images, device variables and functions.

    reserve arena -> weights, constants, snapshots -> images -> device variables -> functions

It is given back when the last lane is, and when any step of loading fails. The arena is a whole one: its other sections
are the first lane's.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from cadence_runtime.cuda.compatibility import arena_bytes
from cadence_runtime.cuda.driver import Driver, Handle
from cadence_runtime.cuda.executables import at
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import CudaPart, DeviceGlobal, Kernel, KernelImage
from cadence_runtime.format.plan import Plan
from cadence_runtime.frozen import frozen
from cadence_runtime.threads import side_by_side

Bytes = npt.NDArray[np.uint8]
Pieces = Iterable[bytes | memoryview]
"""Bytes one behind the other; each piece stays as it is until the next is asked for."""
WeightSource = Callable[[str], Pieces]
"""Returns the raw bytes of a weight by tensor name. Weights may be read side by side, from several threads."""

UPLOAD_THREADS = 4
IMAGE_THREADS = 8


@frozen
class Content:
    """Bytes that stand in the arena from the start, at an offset of it; `name` is for messages."""

    name: str
    offset: int
    pieces: Pieces


Owed = Callable[[], int]
"""Returns what the executables of a lane may still take on the device, in bytes."""


class Common:
    """One plan on one device. `base` is the arena's address; `stream` is the first lane's."""

    def __init__(
        self, driver: Driver, plan: Plan, part: CudaPart, weights: WeightSource, address: int | None = None
    ) -> None:
        """`address` is where the arena should stand, if not where it was recorded."""
        self.driver, self.plan, self.part = driver, plan, part
        self.arena_bytes = arena_bytes(plan)
        self._lanes: list[Owed] = []
        self._lock = threading.Lock()
        with ExitStack() as undo:
            with at(f"the arena of {self.arena_bytes} bytes"):
                self.base = driver.reserve(self.arena_bytes, part.base if address is None else address)
            undo.callback(driver.release, self.base, self.arena_bytes)
            self.stream = driver.new_stream()
            undo.callback(driver.destroy_stream, self.stream)
            self._fill_arena(weights)
            self._libraries = self._load_images(undo)
            self._write_globals()
            self.functions = self._find_functions()
            self._undo = undo.pop_all()

    def take(self, lane: Owed) -> None:
        """Have one more lane."""
        with self._lock:
            self._lanes.append(lane)

    def give_back(self, lane: Owed) -> bool:
        """Have one lane less, or one that was never taken; give back everything behind the last, and return whether it
        was that."""
        with self._lock:
            if lane in self._lanes:
                self._lanes.remove(lane)
            is_last = not self._lanes
        if is_last:
            self._undo.close()
        return is_last

    @property
    def owed_bytes(self) -> int:
        """What executables of the lanes may still take on the device."""
        with self._lock:
            return sum(owed() for owed in self._lanes)

    def section(self, name: str) -> int:
        """Return the arena offset of a section."""
        return next(section.offset for section in self.plan.sections if section.name == name)

    def snapshots(self) -> Iterator[Content]:
        """Yield what library memory starts with, where that is not zeros."""
        for snapshot in self.part.snapshots:
            if snapshot.blob is not None:
                yield Content(f"library memory `{snapshot.name}`", snapshot.offset, self._blob(snapshot.blob))

    def clear(self, base: int, stream: Handle) -> None:
        """Set library memory that starts with zeros, of an arena at an address."""
        for snapshot in self.part.snapshots:
            if snapshot.blob is None:
                with at(f"library memory `{snapshot.name}`"):
                    self.driver.fill(base + snapshot.offset, 0, snapshot.size_bytes, stream)

    def upload(self, content: Content, base: int, stream: Handle) -> None:
        """Copy a content to an arena at an address."""
        with at(content.name):
            address = base + content.offset
            for piece in content.pieces:
                host = np.frombuffer(piece, np.uint8)
                self.driver.upload(address, int(host.ctypes.data), int(host.nbytes), stream)
                address += host.nbytes
            self.driver.synchronize(stream)

    def _fill_arena(self, weights: WeightSource) -> None:
        """Copy what the arena starts with, several contents side by side: what takes time is files and copies."""
        contents = list(self._contents(weights))
        with ExitStack() as undo:
            streams: list[Handle] = []
            for _ in contents[:UPLOAD_THREADS]:
                streams.append(self.driver.new_stream())
                undo.callback(self.driver.destroy_stream, streams[-1])

            def upload(content: Content) -> None:
                self.driver.use()
                stream = streams.pop()  # there are as many as threads
                try:
                    self.upload(content, self.base, stream)
                finally:
                    streams.append(stream)

            side_by_side(upload, contents, UPLOAD_THREADS)
        self.clear(self.base, self.stream)

    def _contents(self, weights: WeightSource) -> Iterator[Content]:
        start = self.section("weights")
        for weight in self.plan.weights:
            pieces = weights(weight.name) if weight.blob is None else self._blob(weight.blob)
            yield Content(f"weight `{weight.name}`", start + weight.offset, pieces)
        start = self.section("constants")
        for constant in self.plan.constants:
            yield Content(f"constant {constant.sha256[:12]}", start + constant.offset, self._blob(constant.blob))
        yield from self.snapshots()

    def _blob(self, number: int) -> Pieces:
        """Yield a blob when the thread that uploads it comes to it: others may still be read and hashed."""
        yield self.plan.blobs[number]

    def _load_images(self, undo: ExitStack) -> list[Handle]:
        def loaded(image: KernelImage) -> Handle:
            self.driver.use()
            with at(f"an image of {image.library}, sha256 {image.sha256[:12]}"):
                library = self.driver.load_library(self.plan.blobs[image.blob])
            undo.callback(self.driver.unload_library, library)
            return library

        return side_by_side(loaded, self.part.images, IMAGE_THREADS)

    def _write_globals(self) -> None:
        for variable in self.part.globals:
            with at(f"device variable `{variable.name}`"):
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
        for start, offset in variable.pointers:
            data[start : start + 8] = (self.base + offset).to_bytes(8, "little")
        return bytes(data)

    def _find_functions(self) -> list[Handle]:
        functions = []
        for kernel in self.part.kernels:
            with at(f"kernel `{kernel.name}`"):
                function = self.driver.function(self._libraries[kernel.image], kernel.name)
                layout = self.driver.param_info(function)
                for attribute, value in kernel.attributes:
                    self.driver.set_attribute(function, attribute, value)
            _require_layout(kernel, layout)
            functions.append(function)
        return functions


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
