"""What a comparison found, as data. Times are in seconds, memory in bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self

from cadencec.inspect import Inspection

DIFFERS = 3
"""The exit code of a plan that is not its stock model."""


@dataclass(frozen=True, slots=True)
class Name:
    """A side: the replay, or a variant of the stock loop, with the numeric switches of the spec or without."""

    variant: str
    has_numerics: bool = True

    def __str__(self) -> str:
        return self.variant if self.has_numerics else f"{self.variant}, no numerics"


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the lowest and the highest of some numbers."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Self:
        """Return the spread of numbers, one at least."""
        return cls(median(numbers), min(numbers), max(numbers))


@dataclass(frozen=True, slots=True)
class Steady:
    """The time of one push, over all rounds, and the medians of the rounds."""

    median_s: float
    p5_s: float
    p95_s: float
    rounds_s: tuple[float, ...]

    @classmethod
    def of(cls, rounds: Sequence[Sequence[float]]) -> Self:
        """Return the times of rounds as one."""
        every = sorted(time for times in rounds for time in times)
        last = len(every) - 1
        return cls(median(every), every[int(0.05 * last)], every[-1 - int(0.05 * last)], tuple(map(median, rounds)))


@dataclass(frozen=True, slots=True)
class Memory:
    """The peak of torch's allocator, what the driver says is gone from the device beyond the process's context, and the
    most that the process had on the host. None where there is none, or it is not known."""

    allocator_bytes: int | None
    device_bytes: int | None
    host_bytes: int | None


@dataclass(frozen=True, slots=True)
class Measured:
    """One side: its steady pushes by event; of each round the time of all pushes and of opening the session; from the
    start of each fresh process to the first output; and its memory."""

    name: Name
    steady: Mapping[str, Steady]
    session_s: tuple[float, ...]
    open_s: tuple[float, ...]
    first_output_s: tuple[float, ...]
    memory: Memory

    def times(self, other: "Measured", event: str | None = None) -> Spread:
        """Return how many times as long as another side this one took, round by round: for a steady push of an event,
        or for the whole session."""
        own, others = (each.session_s if event is None else each.steady[event].rounds_s for each in (self, other))
        return Spread.of([mine / its for mine, its in zip(own, others, strict=True)])


@dataclass(frozen=True, slots=True)
class Work:
    """What a steady push of an event runs: graphs or tapes, and the nodes in them, None for a CPU plan."""

    launches: int
    nodes: int | None


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """The plan: the size of its file, the weights apart from it, its keys and nodes, what each steady push runs; the
    memory that `inspect` predicts, and what the driver says once everything is resident, beyond the context."""

    size_bytes: int
    weights_bytes: int
    weights_apart_bytes: int
    keys: int
    nodes: int | None
    work: Mapping[str, Work]
    arena_bytes: int
    executables_bytes: int | None
    kernels_bytes: int | None
    resident_bytes: int | None

    @classmethod
    def of(cls, found: Inspection, captures: Mapping[str, tuple[int, ...]], resident_bytes: int | None) -> Self:
        """Return the facts of a plan; `captures` are those of a steady push of each event."""
        cuda, weights = found.cuda, found.weights
        return cls(
            size_bytes=found.size_bytes,
            weights_bytes=weights.total_bytes,
            weights_apart_bytes=weights.total_bytes - weights.embedded_bytes,
            keys=found.captures,
            nodes=None if cuda is None else cuda.graph_nodes,
            work={
                event: Work(len(own), None if cuda is None else sum(cuda.nodes_by_capture[number] for number in own))
                for event, own in captures.items()
            },
            arena_bytes=found.arena_bytes,
            executables_bytes=None if cuda is None else cuda.executables_bytes,
            kernels_bytes=None if cuda is None else cuda.kernels_bytes,
            resident_bytes=resident_bytes,
        )

    @property
    def predicted_bytes(self) -> int:
        """What a load takes of the device with everything resident, as `inspect` predicts it."""
        return self.arena_bytes + (self.executables_bytes or 0) + (self.kernels_bytes or 0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A plan against stock. `loop` says what stock is, its variants from what the release does by itself to the
    plainest, which the replay was compared with: `outputs` of them, and `difference` is the first one. `session_s` went
    by on the clocks in a session."""

    model: str
    random_weights: bool
    target: str
    device: str
    versions: Mapping[str, str]
    date: str
    numerics: tuple[tuple[str, str], ...]
    loop: str
    session_s: float
    turns: int
    pushes: int
    seed: int
    plan: PlanFacts
    replay: Measured
    stock: tuple[Measured, ...]
    outputs: int
    difference: str | None

    @property
    def title(self) -> str:
        """The name of the model, and whether its weights are random."""
        return self.model + ", random weights" * self.random_weights

    @property
    def plainest(self) -> Measured:
        """The side of stock whose bits the replay must have."""
        return [each for each in self.stock if each.name.has_numerics][-1]

    @property
    def exit_code(self) -> int:
        """0, or 3 where the replay differs from stock."""
        return 0 if self.difference is None else DIFFERS
