"""A comparison as text and as JSON."""

from collections.abc import Iterator
from typing import Any

from cadencec.bench.found import Comparison, Measured, Memory, Spread, Steady

GAP = "-"


def render(found: Comparison) -> str:
    """Return a comparison as text."""
    return "\n".join(_lines(found))


def _lines(found: Comparison) -> Iterator[str]:
    against = f"{found.loop} (`{found.plainest.name}`)"
    verdict = (
        f"{found.outputs} outputs bit-identical to {against}" if not found.exit_code else f"differs from {against}"
    )
    yield f"{found.title}, on {found.device}: {verdict}"
    if found.difference is not None:
        yield f"  {found.difference}"
    yield (
        f"a session: {found.session_s:.1f} s by the clocks, {found.turns} turns, {found.pushes} pushes of random "
        f"inputs; rounds in turns: {len(found.replay.session_s)}, behind a session of warm-up on each side"
    )
    yield ", ".join(f"{name} {version}" for name, version in found.versions.items()) + f"; {found.date}"
    if found.numerics:
        yield "numerics: " + ", ".join(f"{name} {value}" for name, value in found.numerics)
    yield ""
    yield from _steady(found)
    yield from _sessions(found)
    yield from _memory(found)
    yield from _plan(found)


def _sides(found: Comparison) -> tuple[Measured, ...]:
    return (found.replay, *found.stock)


def _steady(found: Comparison) -> Iterator[str]:
    if not found.replay.steady:
        yield "no push is steady: none can happen again and again within a turn"
        yield ""
    for event in found.replay.steady:
        yield _row(f"steady {event}, ms", "median", "p5", "p95", "rounds", "times the replay")
        for side in _sides(found):
            one = side.steady[event]
            numbers = (_ms(value) for value in (one.median_s, one.p5_s, one.p95_s))
            rounds = f"{_ms(min(one.rounds_s))} to {_ms(max(one.rounds_s))}"
            yield _row(f"  {side.name}", *numbers, rounds, _times(found, side, event))
        yield ""


def _sessions(found: Comparison) -> Iterator[str]:
    yield _row("whole session, s", "median", "open", "first", "rounds", "times the replay")
    for side in _sides(found):
        whole, first = Spread.of(side.session_s), side.first_output_s
        numbers = (f"{whole.median:.3f}", f"{Spread.of(side.open_s).median:.4f}")
        rounds = f"{whole.lowest:.3f} to {whole.highest:.3f}"
        shown = f"{Spread.of(first).median:.2f}" if first else GAP
        yield _row(f"  {side.name}", *numbers, shown, rounds, _times(found, side, None))
    yield "  open: until a session can be pushed to; first: from the start of a process to an output on the host"
    yield ""


def _row(name: str, *columns: str) -> str:
    """Return a line of a table: a name, three numbers, the range of the rounds, and how many times the replay."""
    *numbers, rounds, times = columns
    return f"{name:<28}{''.join(f'{number:>10}' for number in numbers)}{rounds:>22}   {times}".rstrip()


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _times(found: Comparison, side: Measured, event: str | None) -> str:
    if side is found.replay:
        return ""
    times = side.times(found.replay, event)
    return f"{times.median:.2f} ({times.lowest:.2f} to {times.highest:.2f})"


def _memory(found: Comparison) -> Iterator[str]:
    yield f"{'memory, MB':<28}{'allocator':>10}{'driver':>10}{'host':>10}"
    for side in _sides(found):
        memory = side.memory
        columns = (memory.allocator_bytes, memory.device_bytes, memory.host_bytes)
        yield f"  {side.name!s:<26}" + "".join(f"{_mb(value):>10}" for value in columns)
    yield ""


def _plan(found: Comparison) -> Iterator[str]:
    plan = found.plan
    nodes = "" if plan.nodes is None else f", {plan.nodes:,} nodes"
    apart = f"{_mb(plan.weights_bytes)} MB of weights" + (" apart" if plan.weights_apart_bytes else " in it")
    yield f"plan: {_mb(plan.size_bytes)} MB, {apart}; {plan.keys} keys{nodes}"
    for event, work in plan.work.items():
        nodes = "" if work.nodes is None else f", {work.nodes:,} nodes"
        yield f"  steady {event}: {work.launches} launch{'es' * (work.launches != 1)}{nodes}"
    yield f"  predicted: arena {_mb(plan.arena_bytes)} MB" + "".join(
        f", {what} {_mb(value)}"
        for what, value in (("executables", plan.executables_bytes), ("kernels", plan.kernels_bytes))
        if value is not None
    )
    if plan.resident_bytes is not None:
        predicted = f"{_mb(plan.predicted_bytes)} MB predicted"
        yield f"  with every key resident: {_mb(plan.resident_bytes)} MB by the driver, {predicted}"


def _mb(size_bytes: int | None) -> str:
    if size_bytes is None:
        return GAP
    return f"{size_bytes / 1e6:.{1 if size_bytes >= 10e6 else 3}f}"


def to_json(found: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON, schema `cadencec.bench/2`; times are in seconds."""
    plan = found.plan
    return {
        "model": found.model,
        "random_weights": found.random_weights,
        "target": found.target,
        "device": found.device,
        "versions": dict(found.versions),
        "date": found.date,
        "numerics": dict(found.numerics),
        "loop": found.loop,
        "session": {
            "seconds": found.session_s,
            "turns": found.turns,
            "pushes": found.pushes,
            "seed": found.seed,
        },
        "rounds": len(found.replay.session_s),
        "warm_up": "one session on each side",
        "equal": found.difference is None,
        "compared_with": str(found.plainest.name),
        "outputs": found.outputs,
        "difference": found.difference,
        "replay": _side(found, found.replay),
        "stock": [_side(found, side) for side in found.stock],
        "plan": {
            "size_bytes": plan.size_bytes,
            "weights_bytes": plan.weights_bytes,
            "weights_apart_bytes": plan.weights_apart_bytes,
            "keys": plan.keys,
            "nodes": plan.nodes,
            "steady": {e: {"launches": work.launches, "nodes": work.nodes} for e, work in plan.work.items()},
            "arena_bytes": plan.arena_bytes,
            "executables_bytes": plan.executables_bytes,
            "kernels_bytes": plan.kernels_bytes,
            "predicted_bytes": plan.predicted_bytes,
            "resident_bytes": plan.resident_bytes,
        },
    }


def _side(found: Comparison, side: Measured) -> dict[str, Any]:
    is_replay = side is found.replay
    body: dict[str, Any] = {
        "variant": side.name.variant,
        "numerics": side.name.has_numerics,
        "steady": {event: _push(one) for event, one in side.steady.items()},
        "session_s": list(side.session_s),
        "open_s": list(side.open_s),
        "first_output_s": list(side.first_output_s),
        "memory": _bytes(side.memory),
    }
    if not is_replay:
        body["times_the_replay"] = {
            "steady": {event: _spread(side.times(found.replay, event)) for event in side.steady},
            "session": _spread(side.times(found.replay)),
        }
    return body


def _push(one: Steady) -> dict[str, Any]:
    return {"median_s": one.median_s, "p5_s": one.p5_s, "p95_s": one.p95_s, "rounds_s": list(one.rounds_s)}


def _spread(spread: Spread) -> dict[str, float]:
    return {"median": spread.median, "lowest": spread.lowest, "highest": spread.highest}


def _bytes(memory: Memory) -> dict[str, int | None]:
    return {name: getattr(memory, name) for name in ("allocator_bytes", "device_bytes", "host_bytes")}
