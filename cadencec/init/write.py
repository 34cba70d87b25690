"""A first clock spec as text, with what was seen behind it and, behind a `?`, what was not."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import yaml

from cadencec.init.infer import Inferred, Region
from cadencec.init.observe import Observations
from cadencec.init.pushes import Form

SESSION = 16
"""The pushes of a session that grows, where nobody says."""
COMMENT_AT = 48
"""The column at which comments begin, where the line is shorter."""


@dataclass(frozen=True, slots=True)
class Heading:
    """What the user said: the spec's name, the entry as the spec names it, its options, the time between two pushes,
    and the horizon of a session that grows. `has_oracle`: the model has a released loop, which names events and outputs
    itself. `contiguous` are regions whose layout has to be declared."""

    name: str
    entry: str
    options: Mapping[str, object]
    cadence_s: Fraction | None
    horizon: int | None
    has_reset: bool
    has_oracle: bool
    contiguous: frozenset[str] = frozenset()


def spec_text(heading: Heading, found: Observations, inferred: Inferred) -> str:
    """Return the spec; the same observations give the same text."""
    parts = (_head, _model, _clocks, _counters, _regions, _stages, _events, _horizon)
    return "\n".join(line for part in parts for line in part(heading, found, inferred)) + "\n"


def _commented(line: str, comment: str) -> str:
    return f"{line:<{COMMENT_AT}}  # {comment}" if comment else line


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _flow(value: object) -> str:
    """Return a value as YAML on one line."""
    return (
        yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
        .strip()
        .removesuffix("...")
        .strip()
    )


def _head(heading: Heading, found: Observations, inferred: Inferred) -> Iterator[str]:
    pushes, kinds = _count(found.examples, "push", "pushes"), _count(len(found.kinds), "kind", "kinds")
    where = ", long runs on the meta device" if found.on_meta else ""
    yield f"# Clock spec of {heading.name}, as `cadencec init` saw the model run: {pushes} of {kinds}{where}."
    yield "# Comments say what was seen. Behind a ? stands what could not be seen: answer it, and delete it."
    yield "cadence_spec: 1"


def _model(heading: Heading, found: Observations, inferred: Inferred) -> Iterator[str]:
    yield "model:"
    yield f"  name: {_flow(heading.name)}"
    yield f"  entry: {_flow(heading.entry)}"
    if heading.options:
        yield f"  options: {_flow(dict(heading.options))}"


def _clocks(heading: Heading, found: Observations, inferred: Inferred) -> Iterator[str]:
    if heading.cadence_s is not None:
        yield f"cadence: {_seconds(heading.cadence_s)}"
    if not inferred.clocks:
        return
    moved = next((by for by in inferred.advance if by), 1)
    rate = Fraction(moved) / heading.cadence_s if heading.cadence_s else Fraction(1)
    rates = ", ".join(f"{name}: {_rate(rate * ratio)}" for name, ratio in inferred.clocks.items())
    question = "" if heading.cadence_s else "? how many ticks a second: give the time of a push with `--cadence`"
    yield _commented(f"clocks: {{{rates}}}", question)


def _seconds(seconds: Fraction) -> str:
    milliseconds = seconds * 1000
    return f"{milliseconds} ms" if seconds < 1 else f"{seconds} s"


def _rate(rate: Fraction) -> str:
    return f"{rate} Hz"


def _counters(heading: Heading, found: Observations, inferred: Inferred) -> Iterator[str]:
    if inferred.guards is not None:
        yield _commented("counters: {last: 0}", "the kind of the last push; 0 at the start. Other orders did not run")


def _regions(heading: Heading, found: Observations, inferred: Inferred) -> Iterator[str]:
    if not inferred.regions:
        return
    yield "regions:"
    for region in inferred.regions:
        yield f"  # {region.why}" + (f". ? {region.question}" if region.question else "")
        yield f"  {region.name}: {{{', '.join(_region(heading, inferred, region))}}}"


def _region(heading: Heading, inferred: Inferred, region: Region) -> Iterator[str]:
    if region.leaves != (region.name,):
        yield f"leaves: {_flow(list(region.leaves))}"
    if region.dtype != "float32":
        yield f"dtype: {region.dtype}"
    yield "shape: [" + ", ".join("t" if size is None else str(size) for size in region.shape) + "]"
    kind, cap = region.retention
    if region.advance is not None:
        yield f"clock: {inferred.clock_of[region.name]}"
    if region.start is None:
        yield "start: absent"
    elif region.advance is not None and kind != "ring":
        yield f"start: {region.start}"
    if kind == "grow":
        yield "retain: grow"
    elif kind in ("window", "ring"):
        yield f"retain: {{{kind}: {cap}}}"
    if region.name in heading.contiguous:
        yield "layout: contiguous"


def _stages(heading: Heading, found: Observations, inferred: Inferred) -> Iterator[str]:
    outputs = max((one.outputs for one in found.seen), default=1)
    names = ["y"] if outputs == 1 else [f"y{number}" for number in range(outputs)]
    inputs = ", ".join(f"{name}: {{{_input(found, i)}}}" for i, name in enumerate(found.names))
    ranged = [name for name in found.names if name in found.values]
    question = f"? may {' and '.join(ranged)} be larger than what was pushed" if ranged else ""
    yield "stages:"
    yield _commented(f"  step: {{inputs: {{{inputs}}}, outputs: {_flow(names)}}}", question)


def _input(found: Observations, position: int) -> str:
    forms = list(dict.fromkeys(kind[position] for kind in found.kinds))
    tensors = [form for form in forms if isinstance(form, tuple)]
    if not tensors:
        return f"choices: {_flow(sorted(forms, key=str))}"
    name, dtype = found.names[position], tensors[0][0]
    if name in found.values:
        lower, upper = found.values[name]
        return f"dtype: {dtype}, range: [{min(lower, 0)}, {upper}]"
    return f"dtype: {dtype}"


def _events(heading: Heading, found: Observations, inferred: Inferred) -> Iterator[str]:
    if heading.has_oracle:
        yield "# The model has a released loop (`stock`), which has names of its own for events and outputs:"
        yield "# those of the adapter's own spec. With the names below, compare by `cadencec verify --stages`."
    yield "events:"
    names = event_names(found)
    for number, (name, kind) in enumerate(zip(names, found.kinds, strict=True)):
        words = []
        if inferred.guards is not None:
            before = [k + 1 for k, allowed in inferred.guards.items() if number in allowed]
            words.append("when: " + " or ".join(f"last == {value}" for value in sorted(before)))
        words.append(f"inputs: {{{', '.join(f'{n}: {_given(f)}' for n, f in zip(found.names, kind, strict=True))}}}")
        if inferred.advance[number]:
            words.append(f"advance: {{{next(iter(inferred.clocks))}: {inferred.advance[number]}}}")
        words.append("run: [step]")
        back = [region.name for region in inferred.regions if number in region.restarts]
        words += [f"restart: {_flow(back)}"] if back else []
        words += [f"do: {{last: {number + 1}}}"] if inferred.guards is not None else []
        yield _commented(f"  {name}: {{{', '.join(words)}}}", "back at the start behind it" if back else "")
    comment = "the model's own `reset`" if heading.has_reset else "a session begins anew, by `init_state`"
    yield _commented("  turn: {reset: true}", comment)


def _given(form: Form) -> str:
    return "[" + ", ".join(map(str, form[1])) + "]" if isinstance(form, tuple) else _flow(form)


def event_names(found: Observations) -> list[str]:
    """Return a name for each kind of push: `push`, or by what tells it from the others."""
    if len(found.kinds) == 1:
        return ["push"]
    differing = [i for i in range(len(found.names)) if len({kind[i] for kind in found.kinds}) > 1]
    names: list[str] = []
    for kind in found.kinds:
        words = [_word(found.names[i], kind[i], [k[i] for k in found.kinds]) for i in differing]
        name, number = "_".join(["push", *(word for word in words if word)]), 2
        each = name
        while each in names:
            each, number = f"{name}_{number}", number + 1
        names.append(each)
    return names


def _word(name: str, form: Form, others: list[Form]) -> str:
    if isinstance(form, tuple):
        sizes = [other[1] for other in others if isinstance(other, tuple) and len(other[1]) == len(form[1])]
        columns = zip(form[1], zip(*sizes, strict=True), strict=True)
        return "x".join(str(size) for size, column in columns if len({*column}) > 1)
    if isinstance(form, bool):
        return name if form else ""
    return "".join(c if c.isalnum() else "_" for c in str(form))


def _horizon(heading: Heading, found: Observations, inferred: Inferred) -> Iterator[str]:
    if inferred.grows:
        events = heading.horizon or min(max(found.examples, SESSION), max(found.longest, 1))
        told = "as `--horizon` says" if heading.horizon else "a guess"
        yield f"# {', '.join(inferred.grows)} grew all along, over {_count(found.longest, 'push', 'pushes')}."
        if found.raised:
            yield f"# The push behind them raised: {found.raised}"
        yield f"# ? how many pushes is a session long at most: here {told}"
        yield f"horizon: {events} events"
    elif heading.horizon:
        yield f"horizon: {heading.horizon} events"
