"""What every form of section `graphs` has: strings, images, kernels and what stands around the graphs; as words."""

from collections.abc import Callable, Iterable

from cadence_runtime.errors import PlanError
from cadence_runtime.format.cuda import CudaPart, DeviceGlobal, Edge, Kernel, KernelImage, Launch, Move, Snapshot
from cadence_runtime.format.rows import Row_co, Rows
from cadence_runtime.format.words import WORD_BYTES, Words, unpack

MAX_STRING_BYTES = 1 << 20
MAX = 2**63 - 1
MAX_EDGE_BYTE = 255
MAX_ATTRIBUTE = 256


class Strings:
    """Byte strings by number, in the order in which they are first asked for."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def __call__(self, data: bytes | str) -> int:
        raw = data.encode() if isinstance(data, str) else data
        return self.numbers.setdefault(raw, len(self.numbers))

    def words(self) -> list[int]:
        found = [len(self.numbers)]
        for data in self.numbers:
            padded = data + bytes(-len(data) % WORD_BYTES)
            found.append(len(data))
            found += unpack(padded)
        return found


def counted(rows: Iterable[Iterable[int]]) -> list[int]:
    listed = [list(row) for row in rows]
    return [len(listed), *(word for row in listed for word in row)]


def part_words(part: CudaPart, strings: Strings) -> list[int]:
    """Return images, globals, kernels and snapshots."""
    return [*_images(part, strings), *_globals(part, strings), *_kernels(part, strings), *_snapshots(part, strings)]


def _images(part: CudaPart, strings: Strings) -> list[int]:
    return counted((strings(image.sha256), strings(image.library), image.blob) for image in part.images)


def _globals(part: CudaPart, strings: Strings) -> list[int]:
    return counted((g.image, strings(g.name), strings(g.data), *counted(g.pointers)) for g in part.globals)


def _kernels(part: CudaPart, strings: Strings) -> list[int]:
    return counted(
        (
            kernel.image,
            strings(kernel.name),
            *counted(zip(kernel.param_offsets, kernel.param_sizes, strict=True)),
            *counted(kernel.attributes),
        )
        for kernel in part.kernels
    )


def _snapshots(part: CudaPart, strings: Strings) -> list[int]:
    return counted(
        (strings(s.name), s.offset, s.size_bytes, 0 if s.blob is None else s.blob + 1) for s in part.snapshots
    )


def launch_words(launches: Iterable[Launch]) -> list[int]:
    """Return the launches."""
    return counted(map(_launch, launches))


def _launch(launch: Launch) -> list[int]:
    return [launch.graph, *counted(map(_move, launch.before)), *counted(map(_move, launch.after))]


def _move(move: Move) -> tuple[int, int, int]:
    return move.destination, move.source, move.size_bytes


class FirstUse:
    """Checks that numbers are first used in ascending order, so that there is one way to write a pool."""

    def __init__(self) -> None:
        self.used, self.in_order = 0, True

    def __call__(self, numbers: Iterable[int]) -> list[int]:
        """Note the next numbers in the order of use; return those that are new."""
        fresh = []
        for number in dict.fromkeys(numbers):
            if number >= self.used:
                self.in_order = self.in_order and number == self.used
                self.used = number + 1
                fresh.append(number)
        return fresh


class PartReader:
    """Reads what stands around the graphs, front to back. `asked` are the strings in the order in which these ask."""

    def __init__(self, words: Words, blobs: int) -> None:
        self.words, self._blobs = words, blobs
        self.strings: list[bytes] = self._read_strings()
        self._texts: dict[int, str] = {}
        self.asked: list[int] = []
        self.images = tuple(self._image() for _ in range(words.count("images", 3)))
        self.globals = tuple(self._global() for _ in range(words.count("globals", 4)))
        self.kernels = tuple(self._kernel() for _ in range(words.count("kernels", 4)))
        self.snapshots = tuple(self._snapshot() for _ in range(words.count("snapshots", 4)))

    def rows(self, what: str, make: Callable[..., Row_co], width: int) -> Rows[Row_co]:
        """Return the rows that follow behind their count."""
        count = self.words.count(what, width)
        return Rows(make, width, self.words.block(count * width, what))

    def ops(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Return the numbers of some strings, and what they say."""
        numbers = self.words.indices(self.words.count("ops"), len(self.strings), "a string")
        return numbers, tuple(map(self._text_of, numbers))

    def edges(self) -> Rows[Edge]:
        """Return the edges that follow."""
        found = self.rows("edges", Edge, 5)
        for column in found.columns()[2:]:
            if max(column, default=0) > MAX_EDGE_BYTE:
                raise self.words.out_of_range("ports and type of an edge", 0, MAX_EDGE_BYTE + 1, max(column))
        return found

    def launches(self, graphs: int) -> tuple[Launch, ...]:
        """Read the launches, which are not just the graphs in their order: that needs no table."""
        found = tuple(
            Launch(self.words.take(0, graphs, "a graph"), self._moves(), self._moves())
            for _ in range(self.words.count("launches", 3))
        )
        if graphs and found == tuple(map(Launch, range(graphs))):
            raise self.words.out_of_range("launches that share graphs or move rows", 1, 2, 0)
        return found

    def _read_strings(self) -> list[bytes]:
        found = []
        for _ in range(self.words.count("strings")):
            size = self.words.take(0, MAX_STRING_BYTES + 1, "the length of a string")
            padded = self.words.bytes(-(-size // WORD_BYTES), "a string")
            if any(padded[size:]):
                raise PlanError(
                    "CAD5203", "a string of section `graphs` is not padded with zeros", expected="zeros", got="others"
                )
            found.append(padded[:size])
        return found

    def _bytes(self) -> bytes:
        self.asked.append(self.words.take(0, len(self.strings), "a string"))
        return self.strings[self.asked[-1]]

    def _text(self) -> str:
        self._bytes()
        return self._text_of(self.asked[-1])

    def _text_of(self, number: int) -> str:
        try:
            if number not in self._texts:
                self._texts[number] = self.strings[number].decode()
            return self._texts[number]
        except UnicodeDecodeError:
            raise PlanError(
                "CAD5205",
                "a name of section `graphs` is no text",
                expected="UTF-8",
                got=self.strings[number][:16].hex(),
            ) from None

    def _pairs(self, what: str) -> tuple[tuple[int, int], ...]:
        first, second = self.rows(what, lambda *pair: pair, 2).columns()
        return tuple(zip(first, second, strict=True))

    def _image(self) -> KernelImage:
        digest, library = self._text(), self._text()
        return KernelImage(digest, self.words.take(0, self._blobs, "a blob"), library)

    def _global(self) -> DeviceGlobal:
        image = self.words.take(0, len(self.images), "an image")
        name, data = self._text(), self._bytes()
        return DeviceGlobal(image, name, data, self._pairs("pointers"))

    def _kernel(self) -> Kernel:
        image, name = self.words.take(0, len(self.images), "an image"), self._text()
        params = self._pairs("params")
        return Kernel(image, name, tuple(p[0] for p in params), tuple(p[1] for p in params), self._pairs("attributes"))

    def _snapshot(self) -> Snapshot:
        name = self._text()
        offset, size = self.words.many(2, "a snapshot")
        blob = self.words.take(0, self._blobs + 1, "a blob")
        return Snapshot(name, offset, size, blob - 1 if blob else None)

    def _moves(self) -> tuple[Move, ...]:
        words = self.words.block(3 * self.words.count("moves", 3), "moves")
        return tuple(map(Move, words[::3], words[1::3], words[2::3]))
