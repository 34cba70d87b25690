"""One host step: what an event does to a configuration. Everyone who has to know asks here.

    start ──fire(first, n=5)──> ... ──fire(chunk)──> ...      one event each, guard and horizon checked
    start ──push(first, n=5)──────────────────────> ...       an external event and the internal ones that follow

Nothing here holds state: a configuration goes in and steps come out. Expressions cannot do anything but arithmetic, and
a push ends after `MAX_INTERNAL_EVENTS` at the latest. The closure checker in `format/closure.py` shares no code with
this module, on purpose.
"""

from collections import OrderedDict
from collections.abc import Mapping

from cadence_runtime.errors import SessionError
from cadence_runtime.host.compiled import CompiledEvent, CompiledProgram, Fired, RawRun, State
from cadence_runtime.host.program import Configuration, Program, StageRun, Step
from cadence_runtime.host.rules import Env, values

_CACHE_SIZE = 16
_cache: OrderedDict[int, CompiledProgram] = OrderedDict()


def compiled(program: Program) -> CompiledProgram:
    """Return the program made ready for many steps; the last few are kept, by identity."""
    found = _cache.get(id(program))
    if found is None or found.program is not program:
        found = CompiledProgram(program)
        _cache[id(program)] = found
        while len(_cache) > _CACHE_SIZE:
            _cache.popitem(last=False)
    return found


def start(program: Program) -> Configuration:
    """Return where a session begins, and where a reset returns it to."""
    ready = compiled(program)
    return ready.configuration(ready.start)


def fire(program: Program, configuration: Configuration, event_name: str, choices: Mapping[str, int]) -> Step:
    """Return what exactly one event does, external or internal.

    Raises `SessionError` for an event that does not exist (CAD7001), is not enabled (CAD7002), has other choices
    (CAD7003, CAD7004) or goes past the horizon (CAD7005), and `TimelineError` for a program that contradicts itself.
    """
    ready = compiled(program)
    return _fire(ready, ready.state(configuration), event_name, choices)[1]


def push(
    program: Program, configuration: Configuration, event_name: str, choices: Mapping[str, int]
) -> tuple[Step, ...]:
    """Return the external event and the internal ones that follow it, in order; the last step leads to rest.

    Raises as `fire`, and `SessionError` CAD7006 for an internal event.
    """
    ready = compiled(program)
    event = _find(ready, event_name)
    if event.event.internal:
        raise SessionError(
            "CAD7006",
            f"event `{event_name}` is internal",
            expected=_one_of(ready.external, "an external event"),
            got=f"`{event_name}`",
            hint="internal events follow by themselves once they are enabled",
        )
    state, step = _fire(ready, ready.state(configuration), event_name, choices)
    steps = [step]
    for following, before, fired in ready.follow(state):
        if fired is None:
            raise _past_horizon(ready, following, before, {})
        steps.append(_step(ready, following, (), fired))
    return tuple(steps)


def enabled(program: Program, configuration: Configuration) -> tuple[str, ...]:
    """Return the external events whose guard holds, by name, in the order of the program; one whose guard looks at its
    choices counts as enabled."""
    ready = compiled(program)
    return _enabled(ready, ready.state(configuration))


def _enabled(ready: CompiledProgram, state: State) -> tuple[str, ...]:
    env = ready.env(state)
    return tuple(e.event.name for e in ready.external if e.guard_reads_choices or e.enabled(env))


def _fire(ready: CompiledProgram, state: State, name: str, choices: Mapping[str, int]) -> tuple[State, Step]:
    event = _find(ready, name)
    picked = _picked(event, choices)
    env = ready.env(state) | dict(zip(event.choices, picked, strict=True))
    if not event.enabled(env):
        raise _not_enabled(ready, event, state, env)
    fired = event.fire(state, env, ready.start, ready.limit)
    if fired is None:
        raise _past_horizon(ready, event, state, choices)
    return fired[0], _step(ready, event, picked, fired)


def _step(ready: CompiledProgram, event: CompiledEvent, picked: tuple[int, ...], fired: Fired) -> Step:
    after, runs, _ = fired
    return Step(event.event.name, picked, _stage_runs(ready.program, runs), ready.configuration(after))


def _find(ready: CompiledProgram, name: str) -> CompiledEvent:
    for event in (*ready.external, *ready.internal):
        if event.event.name == name:
            return event
    raise SessionError("CAD7001", f"there is no event `{name}`", expected=_one_of(ready.external, "an event"), got=name)


def _picked(event: CompiledEvent, choices: Mapping[str, int]) -> tuple[int, ...]:
    """Return the values of the event's choices in their order."""
    if sorted(choices) != sorted(event.choices):
        raise SessionError(
            "CAD7003",
            f"event `{event.event.name}` has other choices",
            expected=", ".join(f"`{name}`" for name in event.choices) or "none",
            got=", ".join(f"`{name}`" for name in sorted(choices)) or "none",
        )
    for name, values_ in zip(event.choices, event.ranges, strict=True):
        if choices[name] not in values_:
            raise SessionError(
                "CAD7004",
                f"`{name}` of event `{event.event.name}` is out of range",
                expected=f"{values_.start} to {values_.stop - 1}",
                got=str(choices[name]),
            )
    return tuple(choices[name] for name in event.choices)


def _not_enabled(ready: CompiledProgram, event: CompiledEvent, state: State, env: Env) -> SessionError:
    guard = event.event.when
    now = ", ".join(f"`{name}`" for name in _enabled(ready, state))
    return SessionError(
        "CAD7002",
        f"event `{event.event.name}` is not enabled",
        expected=f"`{guard}`",
        got=values(env, guard.names if guard else ()),
        hint=f"enabled now: {now}" if now else "no event is enabled: the session has ended",
    )


def _past_horizon(
    ready: CompiledProgram, event: CompiledEvent, state: State, choices: Mapping[str, int]
) -> SessionError:
    """Return the refusal, naming the regions that would have grown."""
    env = ready.env(state) | dict(choices)
    free = event.fire(state, env, ready.start, limit=2**63)
    grown = []
    if free is not None:
        first = len(ready.counter_names)
        for i, region in enumerate(ready.program.regions, first):
            if free[0][i] > state[i]:
                grown.append(f"`{region.name}`")
    name, used = event.event.name, ready.configuration(state).elapsed
    who = f"region{'s' if len(grown) > 1 else ''} {', '.join(grown)}" if grown else "the horizon"
    horizon = ready.program.horizon
    if horizon is not None and horizon.unit == "seconds":
        what = f"`{name}` is refused by {who}"
        expected, got = f"at most {horizon.limit} s between resets", f"{used} s used, and `{name}` goes past them"
    else:
        what = f"a {_ordinal(int(used) + 1)} `{name}` is refused by {who}"
        limit = ready.limit
        expected, got = f"at most {limit} events between resets", f"the {_ordinal(int(used) + 1)}"
    resets = [e.event.name for e in ready.external if e.event.reset]
    hint = f"push `{resets[0]}` first" if resets else "open a new session, or compile with a longer horizon"
    return SessionError("CAD7005", what, expected=expected, got=got, hint=hint)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _one_of(events: tuple[CompiledEvent, ...], otherwise: str) -> str:
    names = ", ".join(f"`{event.event.name}`" for event in events)
    return f"one of {names}" if names else otherwise


def _stage_runs(program: Program, runs: tuple[RawRun, ...]) -> tuple[StageRun, ...]:
    """Return raw runs with the repeats listed one by one."""
    return tuple(
        StageRun(stage.name, run.args, run.lengths, index if stage.repeat else None, run.inputs)
        for run in runs
        for stage in (program.stages[run.stage],)
        for index in range(run.lower, run.upper)
    )
