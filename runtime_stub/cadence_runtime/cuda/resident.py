"""A plan on the device: its arena, images, functions and executables, from load to close.

    reserve arena -> weights, constants, snapshots -> images -> device variables -> functions -> executables

Everything that was taken is given back on `close`, and when any step of loading fails. Executables are built when their
captures first run, or before by `warm`, and stay; where a budget does not hold all of them, `budget` says which do.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import numpy.typing as npt

from cadence_runtime.cuda.budget import Budgeted
from cadence_runtime.cuda.compatibility import arena_bytes, executable_bytes
from cadence_runtime.cuda.driver import Driver, Handle
from cadence_runtime.cuda.executables import Executables, Maker, at
from cadence_runtime.cuda.needs import Needs
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import CudaPart, DeviceGlobal, Graph, Kernel, KernelImage, Move
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.source import located
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
class _Content:
    """Bytes that stand in the arena from the start, at an offset of it; `name` is for messages."""

    name: str
    offset: int
    pieces: Pieces


class Resident:
    """One plan on one device. `base` is the arena's address; offsets of the plan are relative to it."""

    def __init__(
        self,
        driver: Driver,
        plan: Plan,
        part: CudaPart,
        weights: WeightSource,
        address: int | None = None,
        budget_bytes: int | None = None,
    ) -> None:
        """`address` is where the arena should stand, if not where it was recorded; `budget_bytes` is what executables
        may take on the device, as predicted. Raises UsageError CAD9704 for one that does not hold a push."""
        self.driver, self.plan, self.part = driver, plan, part
        needs = None
        if budget_bytes is not None and budget_bytes < executable_bytes(part):
            needs = Needs(plan, part)
            needs.check(budget_bytes)
        self.arena_bytes = arena_bytes(plan)
        self._unfinished: dict[int, None] = {}  # captures that were launched since the device was last heard of
        with ExitStack() as undo:
            with at(f"the arena of {self.arena_bytes} bytes"):
                self.base = driver.reserve(self.arena_bytes, part.base if address is None else address)
            undo.callback(driver.release, self.base, self.arena_bytes)
            self.stream = driver.new_stream()
            undo.callback(driver.destroy_stream, self.stream)
            self._fill_arena(weights)
            self._libraries = self._load_images(undo)
            self._write_globals()
            maker = Maker(driver, part, self._find_functions(), self.base, self._capture_name)
            self.executables = self._executables(undo, maker, needs, budget_bytes or 0)
            undo.callback(self.executables.close)
            self._undo = undo.pop_all()

    def close(self) -> None:
        """Give back everything; the object is of no use afterwards."""
        self._undo.close()

    def warm(self) -> None:
        """Build and upload executables ahead of their first launch, as far as the budget reaches."""
        self.executables.warm()
        self.synchronize()

    def launch(self, capture: int) -> None:
        """Launch a capture on the plan's stream, after everything launched before, with the moves around it."""
        executable, launch = self.executables.use(capture), self.part.launch(capture)
        self._unfinished[capture] = None
        with self._blaming():
            self._move(launch.before)
            self.driver.launch(executable, self.stream)
            self._move(launch.after)

    def synchronize(self) -> None:
        """Wait for everything that was launched."""
        with self._blaming():
            self.driver.synchronize(self.stream)
        self._unfinished.clear()

    def graph(self, capture: int) -> Graph:
        """Return the graph of a capture."""
        return self.part.graph_of(capture)

    def write(self, offset: int, data: Bytes) -> None:
        """Copy contiguous host bytes to an arena offset, behind the work that was launched before."""
        self.driver.upload(self.base + offset, int(data.ctypes.data), int(data.nbytes), self.stream)

    def read(self, offset: int, size: int) -> Bytes:
        """Copy bytes from an arena offset to a new host array, when all work launched before is done."""
        host = np.empty(size, np.uint8)
        with self._blaming():
            self.driver.download(int(host.ctypes.data), self.base + offset, size, self.stream)
        self._unfinished.clear()
        return host

    def _executables(
        self, undo: ExitStack, maker: Maker, needs: Needs | None, budget_bytes: int
    ) -> Executables | Budgeted:
        if needs is None:
            return Executables(maker, len(self.plan.captures), self.stream)
        stream = self.driver.new_stream()
        undo.callback(self.driver.destroy_stream, stream)
        return Budgeted(maker, needs, budget_bytes, stream, self._finish)

    def _finish(self) -> None:
        """Wait for all launches, on a thread that launches nothing: what was heard of the device stays as it is."""
        with self._blaming():
            self.driver.synchronize(self.stream)

    def _move(self, moves: Sequence[Move]) -> None:
        for move in moves:
            self.driver.copy(self.base + move.destination, self.base + move.source, move.size_bytes, self.stream)

    def _capture_name(self, capture: int) -> str:
        return f"capture {capture} of stage `{self.plan.captures[capture].key.stage}`"

    @contextmanager
    def _blaming(self) -> Iterator[None]:
        """Say of a failure which captures may have caused it: the device reports late."""
        try:
            yield
        except DeviceError as error:
            ran = ", ".join(map(self._capture_name, tuple(self._unfinished)))
            raise located(error, f"after {ran}") from None if ran else error

    def _section(self, name: str) -> int:
        return next(section.offset for section in self.plan.sections if section.name == name)

    def _fill_arena(self, weights: WeightSource) -> None:
        """Copy what the arena starts with, several contents side by side: what takes time is files and copies."""
        contents = list(self._contents(weights))
        with ExitStack() as undo:
            streams: list[Handle] = []
            for _ in contents[:UPLOAD_THREADS]:
                streams.append(self.driver.new_stream())
                undo.callback(self.driver.destroy_stream, streams[-1])

            def upload(content: _Content) -> None:
                self.driver.use()
                stream = streams.pop()  # there are as many as threads
                try:
                    with at(content.name):
                        self._upload(content, stream)
                        self.driver.synchronize(stream)
                finally:
                    streams.append(stream)

            side_by_side(upload, contents, UPLOAD_THREADS)
        for snapshot in self.part.snapshots:
            if snapshot.blob is None:
                with at(f"library memory `{snapshot.name}`"):
                    self.driver.fill(self.base + snapshot.offset, 0, snapshot.size_bytes, self.stream)

    def _contents(self, weights: WeightSource) -> "Iterator[_Content]":
        start = self._section("weights")
        for weight in self.plan.weights:
            pieces = weights(weight.name) if weight.blob is None else self._blob(weight.blob)
            yield _Content(f"weight `{weight.name}`", start + weight.offset, pieces)
        start = self._section("constants")
        for constant in self.plan.constants:
            yield _Content(f"constant {constant.sha256[:12]}", start + constant.offset, self._blob(constant.blob))
        for snapshot in self.part.snapshots:
            if snapshot.blob is not None:
                yield _Content(f"library memory `{snapshot.name}`", snapshot.offset, self._blob(snapshot.blob))

    def _blob(self, number: int) -> Pieces:
        """Yield a blob when the thread that uploads it comes to it: others may still be read and hashed."""
        yield self.plan.blobs[number]

    def _upload(self, content: "_Content", stream: Handle) -> None:
        address = self.base + content.offset
        for piece in content.pieces:
            host = np.frombuffer(piece, np.uint8)
            self.driver.upload(address, int(host.ctypes.data), int(host.nbytes), stream)
            address += host.nbytes

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
