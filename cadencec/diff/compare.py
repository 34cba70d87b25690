"""Two sets of facts -> what changed between them, by part and by id."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cadence_runtime.errors import CadenceError, IncompatibleError, UsageError
from cadencec.diff.facts import MEASURES, Facts, Launches

PARTS = (
    "clocks", "counters", "regions", "stages", "events", "keys", "demand", "arena", "captures", "images", "library",
    "weights", "constants", "numerics", "environment", "provenance", "offsets",
)  # fmt: skip
"""Parts in the order in which they are shown: what was declared, what follows, what was captured, with what."""


SHAPES = 3
"""Launch shapes of a capture that are told one by one."""


@dataclass(frozen=True, slots=True)
class Change:
    """One fact that differs; `before` or `after` is None where there is none."""

    name: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> str:
        """`added`, `removed` or `changed`."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"


@dataclass(frozen=True, slots=True)
class PartDiff:
    """What changed in a part; `same` facts did not. `why_not` says why the two could not be compared."""

    name: str
    changes: tuple[Change, ...]
    same: int
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number on both sides, in bytes or a plain count; None where a side does not have it."""

    name: str
    before: int | None
    after: int | None

    @property
    def unit(self) -> str:
        """`bytes`, or nothing."""
        return MEASURES[self.name]


@dataclass(frozen=True, slots=True)
class Diff:
    """Everything that `cadencec diff` shows. `faults` are those of damaged plans, and of specs that prove nothing."""

    before: Facts
    after: Facts
    measures: tuple[Measure, ...]
    parts: tuple[PartDiff, ...]

    @property
    def differs(self) -> bool:
        """Whether anything that was compared differs. Sizes of files follow from the rest."""
        return any(part.changes for part in self.parts)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The parts that could not be compared."""
        return tuple(part.name for part in self.parts if part.why_not)

    @property
    def faults(self) -> tuple[CadenceError, ...]:
        """What could not be read of either side."""
        return (*self.before.faults, *self.after.faults)


def compare(before: Facts, after: Facts, *, offsets: bool = False, any_model: bool = False) -> Diff:
    """Return what changed. Raises UsageError CAD9302 for a plan and a spec, IncompatibleError CAD6902 for two models,
    unless `any_model` says that they are meant to be compared."""
    if before.kind != after.kind:
        raise UsageError(
            "CAD9302",
            "a plan and a spec cannot be compared",
            expected=f"another {before.kind}, like `{before.path}`",
            got=f"a {after.kind}",
            at=after.path,
            hint="compile the spec, or compare it with the spec that the plan was compiled from",
        )
    if before.model != after.model and not any_model:
        raise IncompatibleError(
            "CAD6902",
            f"the {before.kind}s are of different models",
            expected=f"`{before.model}`, as in {before.path}",
            got=f"`{after.model}`",
            at=after.path,
            hint="compare them nevertheless with `--any-model`",
        )
    names = [name for name in PARTS if name != "offsets" or offsets]
    parts = tuple(_part(name, before, after) for name in names if _has(name, before) or _has(name, after))
    measures = (Measure(name, before.measures.get(name), after.measures.get(name)) for name in MEASURES)
    known = tuple(m for m in measures if m.before is not None or m.after is not None)
    return Diff(before, after, known, parts)


def _has(name: str, facts: Facts) -> bool:
    return (
        name in facts.parts
        or (name == "captures" and bool(facts.launches))
        or (name == "offsets" and facts.kind == "plan")
    )


def _part(name: str, before: Facts, after: Facts) -> PartDiff:
    why_not = _why_not(name, before, after)
    if why_not:
        return PartDiff(name, (), 0, why_not)
    if name == "captures":
        return _captures(before.launches, after.launches)
    left, right = ((f.offsets if name == "offsets" else f.parts.get(name, {})) for f in (before, after))
    changes = [Change(each, left.get(each), right.get(each)) for each in dict.fromkeys((*left, *right))]
    found = tuple(change for change in changes if change.before != change.after)
    return PartDiff(name, found, len(changes) - len(found))


_NEEDS = {
    "keys": ("keys",), "demand": ("demand",), "captures": ("tapes", "graphs", "blob-table", "nodes", "transitions"),
    "images": ("graphs", "blob-table"), "library": ("graphs", "blob-table"),
}  # fmt: skip
"""Sections of a plan, or findings of a spec, without which a part is not known."""


def _why_not(name: str, before: Facts, after: Facts) -> str:
    for facts in (before, after):
        if set(facts.unread).intersection(_NEEDS.get(name, ())):
            return f"{facts.path} is damaged" if facts.kind == "plan" else f"the timeline of {facts.path} is not proven"
    if before.target != after.target and name in ("captures", "arena", "images", "library", "environment", "offsets"):
        return f"one is for {before.target}, the other for {after.target}"
    return ""


def _captures(before: Mapping[str, Launches], after: Mapping[str, Launches]) -> PartDiff:
    changes, same = [], 0
    for name in dict.fromkeys((*before, *after)):
        left, right = before.get(name), after.get(name)
        if left is None or right is None:
            changes.append(Change(name, _count(left) if left else None, _count(right) if right else None))
        elif left != right:
            changes.append(Change(name, _count(left), f"{_count(right)}: {', '.join(launch_changes(left, right))}"))
        else:
            same += 1
    return PartDiff("captures", tuple(changes), same)


def _count(launches: Launches) -> str:
    return f"{len(launches.names)} launches"


def launch_changes(before: Launches, after: Launches) -> Iterator[str]:
    """Yield what changed in a capture: kernels or ops added and removed, launch shapes, parameters, and the frame."""
    left, right = Counter(before.names), Counter(after.names)
    yield from (f"+{count} {name}" for name, count in (right - left).items())
    yield from (f"-{count} {name}" for name, count in (left - right).items())
    if before.names == after.names:
        shapes = [i for i, (a, b) in enumerate(zip(before.shapes, after.shapes, strict=True)) if a != b]
        rest = sum(a != b for a, b in zip(before.rest, after.rest, strict=True))
        yield from ([f"{len(shapes)} with another launch shape"] if shapes else [])
        yield from (f"{after.names[i]}: {before.shapes[i]} -> {after.shapes[i]}" for i in shapes[:SHAPES])
        yield from ([f"{rest} with other parameters"] if rest else [])
    elif left == right:
        yield "in another order"
    names = dict.fromkeys((*before.frame, *after.frame))
    yield from (f"other {name}" for name in names if before.frame.get(name) != after.frame.get(name))
