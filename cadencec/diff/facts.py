"""What two versions are compared by: facts with ids that stay when bytes move.

A plan and a spec both come to parts (`clocks`, `events`, `keys`, ...), and a part to facts by id: names that the spec
gives, keys by what they depend on, weights by tensor name. A fact is a text, so that two versions of the format, or a
plan for the CPU and one for CUDA, still compare where they say the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

from cadence_runtime.errors import CadenceError
from cadence_runtime.host.program import ABSENT, Event, EventInput, Program, Region, Stage

Kind = OneOf["plan", "spec"]
Part = Mapping[str, str]

TIMELINE = ("clocks", "counters", "regions", "stages", "events")
"""The parts that a spec declares."""

MEASURES = {
    "memory": "bytes", "state": "bytes", "scratch": "bytes", "weights": "bytes", "constants": "bytes", "plan": "bytes",
    "keys": "", "captures": "", "nodes": "", "kernels": "", "images": "bytes",
}  # fmt: skip
"""Numbers that a gate can watch, with their units."""


@dataclass(frozen=True, slots=True)
class Launches:
    """What a capture runs, op by op or node by node: names, launch shapes (`grid 64x1x1 ...`, empty for an op), and all
    else of each that the bits may depend on. `frame` has by name what holds of all of them together: edges, what
    pointers lead to, storages, the interface. Addresses are in none of it: a pointer leads to a name and a distance, or
    to the n-th buffer of scratch."""

    names: tuple[str, ...]
    shapes: tuple[str, ...]
    rest: tuple[object, ...]
    frame: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Facts:
    """One side. `target` is empty for a spec. `measures` are those that are known, `unread` the sections of a damaged
    plan that are not in here, with the reasons in `faults`."""

    kind: Kind
    path: str
    model: str
    target: str
    parts: Mapping[str, Part]
    measures: Mapping[str, int]
    launches: Mapping[str, Launches] = field(default_factory=dict)
    offsets: Part = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    faults: tuple[CadenceError, ...] = ()


def declared(program: Program) -> dict[str, Part]:
    """Return the parts that a spec declares, as a plan holds them too."""
    clocks = {clock.name: f"{clock.rate_hz} Hz" for clock in program.clocks}
    clocks |= {} if program.cadence_s is None else {"cadence": f"{program.cadence_s} s"}
    clocks |= {} if program.horizon is None else {"horizon": f"{program.horizon.limit} {program.horizon.unit}"}
    counters = {counter.name: f"starts at {counter.start}" for counter in program.counters}
    counters |= {f"queue {q.name}": f"{q.dtype} along {q.axis}, starts with {list(q.start)}" for q in program.queues}
    counters |= {f"param {name}": str(value) for name, value in program.params}
    return {
        "clocks": clocks,
        "counters": counters,
        "regions": {region.name: _region(region) for region in program.regions},
        "stages": {stage.name: _stage(stage) for stage in program.stages},
        "events": {event.name: _event(event) for event in program.events},
    }


def _region(region: Region) -> str:
    shape = ", ".join("t" if size is None else str(size) for size in region.shape)
    kind, cap = region.retention.kind, region.retention.cap
    words = [f"{region.dtype} [{shape}]", kind if cap is None else f"{kind} {cap}"]
    words += [f"by {region.clock}"] if region.clock else []
    words.append("starts absent" if region.start == ABSENT else f"starts at {region.start}")
    words += ["contiguous"] if region.layout == "contiguous" else []
    return f"{', '.join(words)}; leaves {', '.join(region.leaves)}"


def _stage(stage: Stage) -> str:
    inputs = [item.name + (f" {item.dtype}" if item.dtype else f" of {list(item.literals)}") for item in stage.inputs]
    words = [f"({', '.join(inputs)}) -> ({', '.join(stage.outputs)})"]
    words += [f"reads {', '.join(stage.reads)}", f"writes {', '.join(stage.writes)}"]
    words += [f"args {', '.join(stage.args)}"] if stage.args else []
    if stage.repeat:
        words.append(f"repeats {stage.repeat[0]} {stage.repeat[1]} times, on rows of {', '.join(stage.indexed)}")
    return "; ".join(words)


def _event(event: Event) -> str:
    words = ["internal"] if event.internal else []
    words += [f"when {event.when}"] if event.when is not None else []
    words += [f"choose {choice.name} {choice.lower}..{choice.upper - 1}" for choice in event.choices]
    words += [f"let {name} = {value}" for name, value in event.lets]
    words += [f"input {_input(item)}" for item in event.inputs]
    words += [f"advance {event.advance[0]} {event.advance[1]}"] if event.advance else []
    words += [f"run {', '.join(event.run)}"] if event.run else []
    words += [f"{name} = {value}" for name, value in event.effects]
    words += [f"restart {', '.join(event.restart)}"] if event.restart else []
    words += ["reset"] if event.reset else []
    words += [f"gives {', '.join(event.outputs)}"] if event.outputs else []
    return "; ".join(words)


def _input(item: EventInput) -> str:
    if item.literal is not None:
        return f"{item.name} = {item.literal!r}"
    return f"{item.name} [{', '.join(map(str, item.shape))}]"


def unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return facts by id; a second one of the same id gets a number."""
    found: dict[str, str] = {}
    for name, text in pairs:
        found[_free(name, found)] = text
    return found


def _free(name: str, taken: Mapping[str, object]) -> str:
    return next(each for each in _numbered(name) if each not in taken)


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name} ({number})"
        number += 1
