"""The Timeline: the automaton of configurations that a session can reach, and what each stage sees of it.

configurations   0 ──first n=0──> 1 ──unit──> 3        transitions are pushes: one external event and the internal
                 start          (rest)  │  (rest)      ones that follow it; 2 is passed on the way
                                        └─chunk─ 2
"""

from dataclasses import dataclass
from fractions import Fraction

from cadence_runtime.host.program import Configuration, Program


@dataclass(frozen=True, slots=True)
class StageKey:
    """What one stage sees of a configuration and of an event: the values of its args, the lengths of the regions it
    reads, as it finds them, and the form of each input (sizes, a literal as JSON, or None for what an earlier stage
    computes). Tracing refines it by strides, aliasing and structure."""

    stage: str
    args: tuple[int, ...]
    lengths: tuple[int, ...]
    inputs: tuple[tuple[int, ...] | str | None, ...]


@dataclass(frozen=True, slots=True)
class Transition:
    """A push that may happen at a configuration at rest: `event` is the external event's index in the program, `keys`
    those of all stages that run, in order, the repeats of one stage counted once where they see the same."""

    source: int
    event: int
    choices: tuple[int, ...]
    keys: tuple[int, ...]
    target: int


@dataclass(frozen=True, slots=True)
class Demand:
    """The largest length that a region reaches, in ticks, and the bytes of all its leaves at that length."""

    region: str
    length: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """The common path: transitions from the start into a cycle without reset, and once around it. `seconds` is by how
    much time each stage moves on in one round, by stage name, in the order in which they run."""

    entry: tuple[int, ...]
    transitions: tuple[int, ...]
    seconds: tuple[tuple[str, Fraction], ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is legal and probably not meant; `subject` is its dotted name in the spec."""

    code: str
    what: str
    subject: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything that is proven of a program. Indices are positions in these tuples, which are in the order of a
    breadth-first search: the same program gives the same timeline everywhere.

    `configurations` holds those at rest and those that are passed on the way; `rest` are the indices of the first.
    """

    program: Program
    configurations: tuple[Configuration, ...]
    rest: tuple[int, ...]
    transitions: tuple[Transition, ...]
    keys: tuple[StageKey, ...]
    demand: tuple[Demand, ...]
    cycle: Cycle | None
    findings: tuple[Finding, ...]

    def keys_of(self, stage: str) -> tuple[StageKey, ...]:
        """Return the keys of one stage, in the order in which they are reached."""
        return tuple(key for key in self.keys if key.stage == stage)
