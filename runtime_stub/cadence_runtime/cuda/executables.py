"""The executables of a plan that keeps all of them: each is built when it first runs, or ahead by `warm`, and stays."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from cadence_runtime.cuda.build import Addresses, build
from cadence_runtime.cuda.compatibility import graph_bytes
from cadence_runtime.cuda.driver import Driver, Handle
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import CudaPart
from cadence_runtime.format.source import located
from cadence_runtime.frozen import frozen
from cadence_runtime.residency import AllStay


@frozen
class Maker:
    """What it takes to build a lane's executables: the plan's graphs and functions, and its addresses. `name` is what
    a message calls a capture."""

    driver: Driver
    part: CudaPart
    functions: Sequence[Handle]
    addresses: Addresses
    name: Callable[[int], str]

    def make(self, capture: int, stream: Handle) -> Handle:
        """Return the executable of a capture's graph; its upload is begun on the stream."""
        with at(self.name(capture)):
            made = build(self.driver, self.part.graph_of(capture), self.part.kernels, self.functions, self.addresses)
            try:
                self.driver.prepare(made, stream)
            except BaseException:
                with suppress(DeviceError):  # what comes first is told
                    self.driver.destroy(made)
                raise
        return made


class Executables(AllStay):
    """See above. Everything happens on the caller's thread."""

    def __init__(self, maker: Maker, captures: int, stream: Handle) -> None:
        """`captures` is how many there are; uploads go over the stream that launches go over."""
        self._maker, self._captures, self._stream = maker, captures, stream
        self._made: dict[int, Handle] = {}

    def use(self, capture: int) -> Handle:
        """Return the executable of a capture's graph."""
        graph = self._maker.part.launch(capture).graph
        made = self._made.get(graph)
        if made is None:
            made = self._made[graph] = self._maker.make(capture, self._stream)
        return made

    def warm(self) -> None:
        """Build and upload all, in the order of the plan."""
        for capture in range(self._captures):
            self.use(capture)

    @property
    def owed_bytes(self) -> int:
        """What the executables that are not built yet will take."""
        sizes = graph_bytes(self._maker.part)
        return sum(sizes) - sum(sizes[graph] for graph in tuple(self._made))

    def close(self) -> None:
        """Destroy all of them; nothing may run any more."""
        for made in self._made.values():
            self._maker.driver.destroy(made)
        self._made.clear()


@contextmanager
def at(where: str) -> Iterator[None]:
    """Say of a failure of the driver where it happened."""
    try:
        yield
    except DeviceError as error:
        raise located(error, where) from None
