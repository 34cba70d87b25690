"""Small programs, built by hand, that the tests of the host and of the timeline share."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from cadence_runtime.host.expression import Expression, parse
from cadence_runtime.host.program import (
    Choice,
    Clock,
    Counter,
    Event,
    EventInput,
    Horizon,
    Program,
    Queue,
    Region,
    Retention,
    Stage,
    StageInput,
)

SILENCE = 4218


def expression(value: str | int) -> Expression:
    return parse(str(value))


def event(
    name: str,
    *,
    internal: bool = False,
    when: str | None = None,
    choose: Mapping[str, tuple[int, int]] | None = None,
    let: Mapping[str, str | int] | None = None,
    inputs: Mapping[str, Sequence[str | int]] | None = None,
    advance: tuple[str, str | int] | None = None,
    run: Sequence[str] = (),
    do: Mapping[str, str | int] | None = None,
    restart: Sequence[str] = (),
    reset: bool = False,
) -> Event:
    """An event from plain values; ranges of choices are half-open."""
    return Event(
        name,
        internal,
        parse(when) if when else None,
        tuple(Choice(key, *bounds) for key, bounds in (choose or {}).items()),
        tuple((key, expression(value)) for key, value in (let or {}).items()),
        tuple(EventInput(key, tuple(expression(size) for size in shape)) for key, shape in (inputs or {}).items()),
        (advance[0], expression(advance[1])) if advance else None,
        tuple(run),
        tuple((key, expression(value)) for key, value in (do or {}).items()),
        tuple(restart),
        reset,
    )


def region(
    name: str,
    kind: str,
    cap: int | None = None,
    *,
    start: int = 0,
    clock: str | None = "frame",
    shape: Sequence[int | None] = (1, None, 4),
) -> Region:
    axis = list(shape).index(None) if None in shape else None
    retention = Retention(kind, cap)  # type: ignore[arg-type]
    return Region(name, (name,), "float32", tuple(shape), axis, clock, start, retention)


def stage(
    name: str,
    touches: Sequence[str],
    *,
    args: Sequence[str] = (),
    inputs: Sequence[str] = (),
    repeat: tuple[str, int] | None = None,
    indexed: Sequence[str] = (),
) -> Stage:
    """A stage that reads and writes the same regions."""
    items = tuple(StageInput(item, "float32") for item in inputs)
    return Stage(name, tuple(touches), tuple(touches), items, (), tuple(args), repeat, tuple(indexed))


def program(
    events: Sequence[Event],
    *,
    regions: Sequence[Region] = (),
    stages: Sequence[Stage] = (),
    counters: Mapping[str, int] | None = None,
    queues: Sequence[Queue] = (),
    clocks: Mapping[str, int | Fraction] | None = None,
    params: Mapping[str, int] | None = None,
    horizon: Horizon | None = None,
) -> Program:
    return Program(
        tuple((params or {}).items()),
        tuple(Clock(name, Fraction(rate)) for name, rate in (clocks or {"frame": 50}).items()),
        tuple(Counter(name, value) for name, value in (counters or {}).items()),
        tuple(queues),
        tuple(regions),
        tuple(stages),
        tuple(events),
        horizon,
        None,
    )


def growing_cache(horizon: int | None = 6) -> Program:
    """A cache that grows a frame a step and is dropped at a turn."""
    return program(
        [event("step", inputs={"x": [1, 1, 16]}, advance=("frame", 1), run=["step"]), event("turn", reset=True)],
        regions=[region("kv", "grow")],
        stages=[stage("step", ["kv"], inputs=["x"])],
        horizon=Horizon("events", Fraction(horizon)) if horizon else None,
    )


def minicpm(prompt: int = 300, n_timesteps: int = 5) -> Program:
    """The live rule of MiniCPM-o 4.5: a token buffer that starts with three silence tokens."""
    window, tail = prompt + 100, ("hift.mel", "hift.source", "hift.speech")
    heads = (n_timesteps, 16, 2, 8, None, 128)
    chunk_runs = ["encode", "denoise", "vocode"]
    return program(
        [
            event("first", when="phase == 0", choose={"n": (0, 26)}, inputs={"token": [1, "n"]},
                  do={"buf": "buf + n", "phase": 1}),
            event("unit", when="phase == 1", inputs={"token": [1, 25]}, do={"buf": "buf + 25"}),
            event("end", when="phase <= 1", choose={"n": (0, 26)}, inputs={"token": [1, "n"]},
                  do={"buf": "buf + n", "phase": 2}),
            event("chunk", internal=True, when="buf >= 8", let={"tok": "min(28, buf)", "final": 0},
                  inputs={"token": [1, "tok"]}, advance=("mel", "2 * (tok - 3)"), run=chunk_runs,
                  do={"buf": "buf - min(25, tok - 3)"}),
            event("last", internal=True, when="phase == 2 and buf < 8", let={"tok": "buf", "final": 1},
                  inputs={"token": [1, "tok"]}, advance=("mel", "2 * tok"), run=chunk_runs, reset=True),
            event("turn", reset=True),
        ],
        clocks={"token": 25, "mel": 50, "sample": 24000},
        params={"P": prompt},
        counters={"buf": 3, "phase": 0},
        queues=[Queue("token", "buf", "int64", 1, (SILENCE,) * 3)],
        regions=[
            region("estimator.att", "window", window, start=prompt, clock="mel", shape=heads),
            region("conformer.att", "window", window, start=prompt, clock="mel", shape=(10, 1, 8, None, 128)),
            region("hift.mel", "window", 8, clock="mel", shape=(1, 80, None)),
            region("hift.source", "window", 3840, clock="sample", shape=(1, 1, None)),
            region("hift.speech", "window", 3840, clock="sample", shape=(1, None)),
        ],
        stages=[
            stage("encode", ["conformer.att"], args=["tok", "final"], inputs=["token"]),
            stage("denoise", ["estimator.att"], args=["mel"], repeat=("euler", n_timesteps),
                  indexed=["estimator.att"]),
            stage("vocode", tail, args=["mel", "final"]),
        ],
    )  # fmt: skip
