"""The leaves that a program declares, and whether a real state has exactly these.

Every leaf of the state belongs to one region (a tensor, or None while the region is absent) or to one counter (a Python
int). A leaf that nothing declares would be lost between two steps; a declared one that is not there, or that has
another shape than the timeline says, would make the timeline a lie. Both are errors, by name.

Where a stage takes a region one row at a time, each row is a leaf of its own, with a slot of its own: while row 2 is
written at its new length, row 3 still waits with its old one.

    att (3, 8, t, 64), indexed by `denoise`   ->   leaves `att[0]`, `att[1]`, `att[2]`, each (8, t, 64)
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cadence_runtime.errors import CadenceError, TraceError, raise_all
from cadence_runtime.format.plan import Form, TensorForm
from cadence_runtime.host.program import ABSENT, Configuration, Counter, Program, Region
from cadencec.spec.values import suggest
from cadencec.trace.state import Value

Where = Callable[[str], str | None]
"""Place in the spec of a dotted name (`regions.kv.shape`)."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared leaf: exactly one of `region` and `counter` is set; `position` is its place in a configuration's
    lengths or counters. `whole` is its path in the model's state, of which it is row `row`, or all."""

    path: str
    whole: str
    region: Region | None
    counter: Counter | None
    position: int
    row: int | None = None

    @property
    def owner(self) -> str:
        """The name of the region or counter."""
        found = self.region or self.counter
        return found.name if found else ""

    def expected_sizes(self, length: int) -> tuple[int, ...] | None:
        """Return the sizes at a length of the region; None while it is absent."""
        if self.region is None or length == ABSENT:
            return None
        sizes = tuple(length if size is None else size for size in self.region.shape)
        return sizes if self.row is None else sizes[1:]


@dataclass(frozen=True, slots=True)
class Leaves:
    """All declared leaves: those of the regions in their order, then those of the counters."""

    declared: tuple[Declared, ...]
    where: Where

    @property
    def paths(self) -> tuple[str, ...]:
        """Their paths, in order."""
        return tuple(leaf.path for leaf in self.declared)

    @property
    def contiguous(self) -> tuple[bool, ...]:
        """Which of them the spec wants contiguous."""
        return tuple(leaf.region is not None and leaf.region.layout == "contiguous" for leaf in self.declared)

    def read(self, state: Mapping[str, Value], after: str, at: str | None) -> tuple[Value, ...]:
        """Return the values of the declared leaves among all leaves that `after` returned; None where one is absent.

        Raises TraceError CAD3502 for a tensor and CAD3503 for an int that nothing declares; `at` is the model's line.
        """
        raise_all(undeclared(path, state[path], after, at) for path in self.undeclared(state))
        return tuple(row_of(state.get(leaf.whole), leaf.row) for leaf in self.declared)

    def wholes(self, values: Sequence[Value], positions: Iterable[int]) -> dict[str, Value]:
        """Return the leaves at some positions as the model knows them, by path: rows are put together."""
        found: dict[str, list[Value]] = {}
        for i in positions:
            found.setdefault(self.declared[i].whole, []).append(values[i])
        split = {leaf.whole for leaf in self.declared if leaf.row is not None}
        return {path: joined(rows) if path in split else rows[0] for path, rows in found.items()}

    def undeclared(self, state: Mapping[str, Value]) -> list[str]:
        """Return the paths of tensors and ints that nothing declares."""
        known = {leaf.whole for leaf in self.declared}
        return [path for path, value in state.items() if value is not None and path not in known]

    def check(self, configuration: Configuration, forms: Sequence[Form], after: str, state: Collection[str]) -> None:
        """Compare the forms of the leaves with what the spec says of a configuration. `state` are the paths of all
        leaves that the model returned, for messages. Raises TraceError (CAD3504 to CAD3507) for each that differs."""
        errors: list[CadenceError] = []
        for leaf, form in zip(self.declared, forms, strict=True):
            error = self._difference(leaf, configuration, form, after, state)
            if error is not None:
                errors.append(error)
        raise_all(errors)

    def fit(self, configuration: Configuration, forms: Sequence[Form]) -> bool:
        """Return whether the forms of the leaves are what the spec says of a configuration."""
        rows = zip(self.declared, forms, strict=True)
        return all(self._difference(leaf, configuration, form, "", ()) is None for leaf, form in rows)

    def _difference(
        self, leaf: Declared, configuration: Configuration, form: Form, after: str, state: Collection[str]
    ) -> CadenceError | None:
        if leaf.counter is not None:
            return _counter_difference(leaf, configuration.counters[leaf.position], form, after, self.where)
        length = configuration.lengths[leaf.position]
        expected = leaf.expected_sizes(length)
        if isinstance(form, TensorForm):
            fits = expected is not None and leaf.region is not None and form.dtype == leaf.region.dtype
            if fits and form.sizes == expected:
                return None
        elif form.kind == "none" and expected is None:
            return None
        if leaf.whole not in state and expected is not None:
            return _missing(leaf, after, state, self.where)
        return _shape_difference(leaf, expected, length, form, after, self.where)


def declared_leaves(program: Program, where: Where = lambda name: None) -> Leaves:
    """Return the leaves that a program declares."""
    indexed = {name for stage in program.stages for name in stage.indexed}
    found: list[Declared] = []
    for position, region in enumerate(program.regions):
        for path in region.leaves:
            if region.name in indexed:
                rows = range(region.shape[0] or 0)
                found += [Declared(f"{path}[{row}]", path, region, None, position, row) for row in rows]
            else:
                found.append(Declared(path, path, region, None, position))
    found += [Declared(c.leaf, c.leaf, None, c, position) for position, c in enumerate(program.counters) if c.leaf]
    return Leaves(tuple(found), where)


def row_of(value: Value, row: int | None) -> Value:
    """Return a row of a tensor, or the value itself."""
    return value[row] if row is not None and isinstance(value, Tensor) else value


def joined(rows: Sequence[Value]) -> Value:
    """Return rows put together; None while they are absent."""
    tensors = [row for row in rows if isinstance(row, Tensor)]
    return torch.stack(tensors) if tensors else None


def undeclared(path: str, value: Value, after: str, at: str | None, changed: str = "") -> TraceError:
    """CAD3502 or CAD3503: a leaf that no region and no counter declares."""
    name = "state" if path == "." else path
    if isinstance(value, Tensor):
        return TraceError(
            "CAD3502",
            f"no region declares the state leaf `{path}`",
            expected="a region for every tensor of the state",
            got=f"{describe(value)} after `{after}`",
            at=at,
            hint=f"declare it: `regions: {{{name}: {{leaves: [{path}], shape: {list(value.shape)}, ...}}}}`",
        )
    return TraceError(
        "CAD3503",
        f"no counter declares the state leaf `{path}`, a Python {type(value).__name__}",
        expected="a tensor in a region, or a counter with its bounds",
        got=f"{type(value).__name__}, {changed or f'{value} after `{after}`'}",
        at=at,
        hint=f"keep it in a tensor, or declare it: `counters: {{{name}: {{start: {value}, leaf: {path}}}}}` "
        "with its effect in `do`; each of its values is a capture of its own",
    )


def describe(value: Value) -> str:
    """Return a leaf as messages show it."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return "None" if value is None else f"{type(value).__name__} {value}"


def _describe_form(form: Form) -> str:
    if isinstance(form, TensorForm):
        return f"{form.dtype} {list(form.sizes)}"
    return "None" if form.kind == "none" else f"{form.kind} {form.text}"


def _missing(leaf: Declared, after: str, state: Collection[str], where: Where) -> TraceError:
    return TraceError(
        "CAD3504",
        f"the state after `{after}` has no leaf `{leaf.whole}`",
        expected=f"the leaf `{leaf.whole}` of `{leaf.owner}`",
        got=", ".join(f"`{path}`" for path in state) or "an empty state",
        at=where(f"regions.{leaf.owner}.leaves" if leaf.region else f"counters.{leaf.owner}"),
        hint=suggest(leaf.path, state),
    )


def _shape_difference(
    leaf: Declared, expected: tuple[int, ...] | None, length: int, form: Form, after: str, where: Where
) -> TraceError:
    dtype = leaf.region.dtype if leaf.region else ""
    told = "None, for the region is absent" if expected is None else f"{dtype} {list(expected)}"
    has_length = leaf.region is not None and leaf.region.axis is not None and expected is not None
    return TraceError(
        "CAD3505",
        f"region `{leaf.owner}` is not what the spec says after `{after}`",
        expected=told + (f", {length} long" if has_length else ""),
        got=_describe_form(form) + ("" if leaf.path == leaf.owner else f" in `{leaf.path}`"),
        at=where(f"regions.{leaf.owner}"),
        hint="the spec's `shape`, `start`, `retain` and `advance` must give what the model does",
    )


def _counter_difference(leaf: Declared, value: int, form: Form, after: str, where: Where) -> TraceError | None:
    literal = None if isinstance(form, TensorForm) else form
    known = {"int": literal.text, "bool": str(int(literal.text == "true"))} if literal else {}
    if literal is not None and known.get(literal.kind) == str(value):
        return None
    return TraceError(
        "CAD3506",
        f"counter `{leaf.owner}` is not the state leaf `{leaf.path}` after `{after}`",
        expected=f"int {value}",
        got=_describe_form(form),
        at=where(f"counters.{leaf.owner}"),
        hint="the counter's `start` and its effects in `do` must give what the model does",
    )
