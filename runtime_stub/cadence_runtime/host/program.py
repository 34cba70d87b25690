"""The host program: what a session does when an event happens to it, as plain data.

A `Program` is what a clock spec comes to once its params and options are fixed. The timeline search, the explainer,
the verifier and every player take the same `step` over it; nothing else decides what an event means.
"""

from fractions import Fraction
from typing import Literal as OneOf

from cadence_runtime.frozen import frozen
from cadence_runtime.host.expression import Expression

ABSENT = -1
"""The length of a region that does not exist yet (None in the model's state)."""


@frozen
class Clock:
    """A named counter that ticks `rate_hz` times a second."""

    name: str
    rate_hz: Fraction


@frozen
class Counter:
    """An integer that the host keeps. `leaf` is the path of the Python int in the model's state that it stands for,
    or empty."""

    name: str
    start: int
    leaf: str = ""


@frozen
class Queue:
    """Rows that the host holds back for later stages, oldest first: what events push under `name` is appended along
    `axis`, a stage input of the same name takes rows from the front and leaves them there, and rows leave at the front
    when `counter`, which always equals the number of rows, goes down. `start` are the rows after a reset (int values
    along the axis; every other dim is 1)."""

    name: str
    counter: str
    dtype: str
    axis: int
    start: tuple[int, ...]


@frozen
class Retention:
    """What happens to a region's length as its clock advances: `fixed` and `ring` keep `cap`, `grow` adds every tick,
    `window` adds and then keeps the newest `cap`."""

    kind: OneOf["fixed", "grow", "window", "ring"]
    cap: int | None


@frozen
class Region:
    """One piece of streaming state. `start` is its length in ticks of `clock` at the start and after a reset, or
    `ABSENT`. `shape` has one `None`, at `axis`, where the length goes; a region without such an axis has length 1."""

    name: str
    leaves: tuple[str, ...]
    dtype: str
    shape: tuple[int | None, ...]
    axis: int | None
    clock: str | None
    start: int
    retention: Retention
    layout: OneOf["kept", "contiguous"] = "kept"


@frozen
class StageInput:
    """A named input of a stage. `literals` lists the values of one that is no tensor (then `dtype` is empty). `lower`
    and `upper` bound random values for checking (half-open; for floats None means a normal distribution)."""

    name: str
    dtype: str
    literals: tuple[bool | int | str, ...] = ()
    lower: int | None = None
    upper: int | None = None


@frozen
class Stage:
    """A function of named tensors. `args` are the counters and let-names whose values it reads (part of its key);
    `repeat` names an index and its count: the stage runs once per value, and regions listed in `indexed` are passed
    one row at a time along their first dim."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    inputs: tuple[StageInput, ...]
    outputs: tuple[str, ...]
    args: tuple[str, ...] = ()
    repeat: tuple[str, int] | None = None
    indexed: tuple[str, ...] = ()


@frozen
class Choice:
    """A number the user picks when the event is pushed, from the half-open range; read off the shape of an input where
    the event's inputs mention it."""

    name: str
    lower: int
    upper: int


@frozen
class EventInput:
    """What an event brings (external) or hands to a stage from a queue (internal): a tensor of the given shape, or one
    literal."""

    name: str
    shape: tuple[Expression, ...] = ()
    literal: bool | int | str | None = None


@frozen
class Event:
    """Something that happens to a session.

    Order of one event: guard; `lets`; `inputs` join the queues; `run` the stages in order, each written region
    advancing once by its clock's ticks and then being cut by its retention; `effects`, all computed from the values
    before any is stored; `restart` returns single regions to their start length (the stage wrote them so); `reset`
    runs the model's own reset and returns every region, counter and queue to its start.
    """

    name: str
    internal: bool = False
    when: Expression | None = None
    choices: tuple[Choice, ...] = ()
    lets: tuple[tuple[str, Expression], ...] = ()
    inputs: tuple[EventInput, ...] = ()
    advance: tuple[str, Expression] | None = None
    run: tuple[str, ...] = ()
    effects: tuple[tuple[str, Expression], ...] = ()
    restart: tuple[str, ...] = ()
    reset: bool = False
    outputs: tuple[str, ...] = ()


@frozen
class Horizon:
    """How long a session may run between resets: at most `limit` external events, or `limit` seconds of advance."""

    unit: OneOf["events", "seconds"]
    limit: Fraction


@frozen
class Program:
    """Everything a session's host side needs. `params` are constants that expressions may name. `cadence_s` is the
    real-time budget of one external event, or None."""

    params: tuple[tuple[str, int], ...]
    clocks: tuple[Clock, ...]
    counters: tuple[Counter, ...]
    queues: tuple[Queue, ...]
    regions: tuple[Region, ...]
    stages: tuple[Stage, ...]
    events: tuple[Event, ...]
    horizon: Horizon | None
    cadence_s: Fraction | None


@frozen
class Configuration:
    """One vector of all counters and region lengths, in the order of the program, and the part of the horizon that is
    used (0 where there is none)."""

    counters: tuple[int, ...]
    lengths: tuple[int, ...]
    elapsed: Fraction = Fraction(0)


@frozen
class StageRun:
    """One run of a stage within an event. `args` are the values of the stage's args; `lengths` those of the regions it
    reads, as it finds them (a region that an earlier stage of the event wrote has its new length); `index` counts the
    repeats (None without one). `inputs` has one form for each of the stage's inputs: the sizes that the event gives,
    a literal as JSON (`true`, `3`, `"a"`), or None for what an earlier stage computes."""

    stage: str
    args: tuple[int, ...]
    lengths: tuple[int, ...]
    index: int | None
    inputs: tuple[tuple[int, ...] | str | None, ...] = ()


@frozen
class Step:
    """What one event does to a configuration: the stages it runs and where it leads."""

    event: str
    choices: tuple[int, ...]
    runs: tuple[StageRun, ...]
    after: Configuration
