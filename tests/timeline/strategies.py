"""Random small programs: two counters, a queue, regions of every retention, stages that share nothing within an event.

Every counter is bounded, so a program is finite unless a region grows without a horizon.
"""

from fractions import Fraction

from hypothesis import strategies as st

from cadence_runtime.host.program import ABSENT, Event, Horizon, Program, Queue, Region
from tests.host.programs import event, program, region, stage

SMALL = st.integers(0, 3)
EFFECTS = ("({c} + {k}) % 4", "min({c} + 1, {k})", "{k}", "max({c} - 1, 0)")
ENDLESS = ("{c} + {k}", "{c} - 1", "{c} + a", "min({c} + 1, 9)")
GUARDS = ("a < {k}", "b == {k}", "a >= {k} and b < 2", "not a == {k}", "b >= 1 or a == {k}")


@st.composite
def regions(draw: st.DrawFn, name: str) -> Region:
    kind = draw(st.sampled_from(["fixed", "ring", "window", "grow"]))
    cap = None if kind == "grow" else draw(st.integers(1, 4))
    begin = cap if kind in {"fixed", "ring"} else draw(st.integers(0, cap or 2))
    if draw(st.booleans()):
        begin = ABSENT
    clock = draw(st.sampled_from(["frame", "token"]))
    return region(name, kind, cap, start=ABSENT if begin is None else begin, clock=clock)


def guards(draw: st.DrawFn) -> str | None:
    template = draw(st.sampled_from((None, *GUARDS)))
    return template.format(k=draw(SMALL)) if template else None


@st.composite
def events(draw: st.DrawFn, name: str, touched: dict[str, list[str]], effects: tuple[str, ...] = EFFECTS) -> Event:
    internal = name.startswith("then")
    choose = {"n": (0, draw(st.integers(1, 3)))} if not internal and draw(st.booleans()) else None
    do = {c: draw(st.sampled_from(effects)).format(c=c, k=draw(SMALL)) for c in draw(st.sets(st.sampled_from("ab")))}
    inputs: dict[str, list[str | int]] = {}
    when = guards(draw)
    if draw(st.booleans()):
        rows = "n" if choose else draw(st.integers(0, 2))
        if internal:
            rows = draw(st.integers(1, 2))
            when = f"q >= {rows} and ({when or 1})"
            do["q"] = f"q - {rows}"
        else:
            when = f"q <= 2 and ({when or 1})"
            do["q"] = f"q + {rows}"
        inputs["token_q"] = [1, rows]
    if internal and when is None:
        when = f"a == {draw(SMALL)}"
    fed = [stage for stage in sorted(touched) if stage != "t" or inputs]  # `t` takes the rows of the queue
    run = draw(st.lists(st.sampled_from(fed), unique=True))
    written = [region for stage in run for region in touched[stage]]
    clock = draw(st.sampled_from(["frame", "token"]))
    ticks = draw(st.sampled_from(["0", "2", "2 * a", "2 * b + 2", *(["2 * n"] if choose else [])]))
    return event(
        name,
        internal=internal,
        when=when,
        choose=choose,
        inputs=inputs,
        advance=(clock, ticks) if draw(st.booleans()) else None,
        run=run,
        do=dict(sorted(do.items())),
        restart=[draw(st.sampled_from(written))] if written and draw(st.booleans()) else (),
        reset=draw(st.integers(0, 5)) == 0,
    )


@st.composite
def programs(draw: st.DrawFn, effects: tuple[str, ...] = EFFECTS) -> Program:
    names = ["r0", "r1", "r2"][: draw(st.integers(1, 3))]
    split = draw(st.integers(0, len(names)))
    stages = [
        stage("s", names[:split], args=draw(st.lists(st.sampled_from(["a", "b", "frame"]), unique=True))),
        stage("t", names[split:], args=["a"], inputs=["token_q"], repeat=("i", 2) if draw(st.booleans()) else None),
    ]
    external = [f"go{i}" for i in range(draw(st.integers(1, 3)))]
    internal = [f"then{i}" for i in range(draw(st.integers(0, 2)))]
    held = draw(st.integers(0, 2))
    limit = draw(st.integers(1, 5))
    horizon = draw(st.sampled_from([None, Horizon("events", Fraction(limit)), Horizon("seconds", Fraction(limit, 12))]))
    return program(
        [draw(events(name, {"s": names[:split], "t": names[split:]}, effects)) for name in (*external, *internal)],
        regions=[draw(regions(name)) for name in names],
        stages=stages,
        counters={"a": draw(SMALL), "b": draw(SMALL), "q": held},
        queues=[Queue("token_q", "q", "int64", 1, (0,) * held)],
        clocks={"frame": 50, "token": 25},
        horizon=horizon,
    )
