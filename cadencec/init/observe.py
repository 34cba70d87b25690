"""Runs a model over its pushes and others of the same kinds, and writes down what each did to every leaf of the state.

    the pushes as they come       1 8   2 5   2 5   3 2
    each kind over and over       2 2 2 2 ...            until lengths repeat, or for `steps` pushes
    every kind after every other  1 2, 2 1, 3 2, ...     which orders a session may have

The long runs look at shapes alone, on the meta device where the model allows it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cadence_runtime.errors import CadenceError
from cadence_runtime.host.program import Stage, StageInput
from cadencec.init.pushes import Form, Pushes, kind_of
from cadencec.trace.model import Model, StageCall
from cadencec.trace.neutral import neutral
from cadencec.trace.operands import DTYPE_NAMES
from cadencec.trace.state import flatten, rebuild

Leaf = tuple[str, tuple[int, ...]] | int | None
"""A leaf as it was seen: dtype and sizes, a Python int, or None."""

SETTLED = 3
"""So many pushes of one kind that change no length end a long run."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One push: its kind, the leaves before and after by path, and how the rows of leaves that changed and kept their
    size moved: (axis, by how many they were shifted) and (axis, rows that changed), where only some did."""

    kind: int
    before: dict[str, Leaf]
    after: dict[str, Leaf]
    shifts: dict[str, frozenset[tuple[int, int]]]
    rows: dict[str, tuple[tuple[int, tuple[int, ...]], ...]]
    outputs: int


@dataclass(frozen=True, slots=True)
class Observations:
    """`kinds` are the distinct pushes, `start` the leaves of a fresh session, `seen` everything that was run;
    `orders` are the pairs of kinds that may follow one another, -1 standing for the start. `longest` is how many pushes
    a session had in which lengths never repeated, and `raised` what ended it, if anything did."""

    names: tuple[str, ...]
    kinds: tuple[tuple[Form, ...], ...]
    examples: int
    start: dict[str, Leaf]
    seen: tuple[Seen, ...]
    orders: frozenset[tuple[int, int]]
    longest: int
    raised: str
    on_meta: bool
    values: dict[str, tuple[int, int]]


def observe(model: Model, pushes: Pushes, steps: int) -> Observations:
    """Run everything. Raises TraceError CAD3007 with the line where an example itself fails."""
    kinds = pushes.kinds()
    runner = _Runner(model, _call(model, pushes.names), kinds)
    seen: list[Seen] = []
    orders: set[tuple[int, int]] = set()
    state, last = runner.start(), -1
    for values in pushes.values:
        state, one = runner.push(state, values)
        seen.append(one)
        orders.add((last, one.kind))
        last = one.kind
    tried, states = _orders(runner, pushes, seen)
    orders |= tried
    long_runs = _Long(model, runner, pushes, states, orders)
    endless = [run for run in (long_runs.run(kind, steps, seen) for kind in range(len(kinds))) if not run.settled]
    raised = min((run for run in endless if run.raised), key=lambda run: run.pushes, default=None)
    return Observations(
        names=pushes.names,
        kinds=kinds,
        examples=len(pushes.values),
        start=leaves_of(runner.start()),
        seen=tuple(seen),
        orders=frozenset(orders),
        longest=raised.pushes if raised else max((run.pushes for run in endless), default=0),
        raised=raised.raised if raised else "",
        on_meta=long_runs.on_meta,
        values=_ranges(pushes),
    )


def leaves_of(state: object) -> dict[str, Leaf]:
    """Return the leaves of a state as they are seen."""
    return {path: _leaf(value) for path, value in flatten(state).items()}


def _leaf(value: object) -> Leaf:
    if isinstance(value, Tensor):
        return DTYPE_NAMES[value.dtype], tuple(value.shape)
    return value if isinstance(value, int) else None


def _call(model: Model, names: Sequence[str]) -> StageCall:
    return model.stage(Stage("step", (), (), tuple(StageInput(name, "float32") for name in names), ("y",)))


def _ranges(pushes: Pushes) -> dict[str, tuple[int, int]]:
    """Return the smallest and largest value of each input of integers."""
    found: dict[str, tuple[int, int]] = {}
    for position, name in enumerate(pushes.names):
        tensors = [values[position] for values in pushes.values if isinstance(values[position], Tensor)]
        whole = [tensor for tensor in tensors if tensor.numel() and _is_whole(tensor)]
        if whole:
            found[name] = min(int(t.min()) for t in whole), max(int(t.max()) for t in whole)
    return found


def _is_whole(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


@dataclass(slots=True)
class _Runner:
    model: Model
    call: StageCall
    kinds: tuple[tuple[Form, ...], ...]

    def start(self) -> object:
        with neutral():
            return self.model.init_state()

    def push(self, state: object, values: Sequence[object], look: bool = True) -> tuple[object, Seen]:
        """Push to a state, which is left as it is; return the new one and what was seen."""
        given = [value.clone() if isinstance(value, Tensor) else value for value in values]
        before, working = flatten(state), _cloned(state)
        with neutral():
            new, outputs = self.call(working, {}, given)
        after = flatten(new, "the state after `step`")
        pairs = ((path, before.get(path), value) for path, value in after.items())
        tensors = [(p, a, b) for p, a, b in pairs if isinstance(a, Tensor) and isinstance(b, Tensor)]
        moved = [(p, a, b) for p, a, b in tensors if look and a.shape == b.shape and not _same(a, b)]
        return new, Seen(
            kind=self.kinds.index(kind_of(values)),
            before=leaves_of(state),
            after=leaves_of(new),
            shifts={path: frozenset(_shifts(a, b)) for path, a, b in moved},
            rows={path: tuple(_rows(a, b)) for path, a, b in moved},
            outputs=len(_outputs(outputs)),
        )


def _outputs(outputs: object) -> list[object]:
    from torch.utils import _pytree as pytree

    return list(pytree.tree_leaves(outputs))


def _cloned(state: object) -> object:
    leaves = flatten(state)
    copies = {path: value.clone() if isinstance(value, Tensor) else value for path, value in leaves.items()}
    return rebuild(state, copies.__getitem__)


def _same(before: Tensor, after: Tensor) -> bool:
    return before.device.type != "meta" and torch.equal(before, after)


def _shifts(before: Tensor, after: Tensor) -> Iterator[tuple[int, int]]:
    """Yield (axis, rows) for each axis along which the first rows fell out and all others moved up."""
    for axis, size in enumerate(before.shape):
        for by in range(1, size):
            if torch.equal(after.narrow(axis, 0, size - by), before.narrow(axis, by, size - by)):
                yield axis, by
                break


def _rows(before: Tensor, after: Tensor) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (axis, rows that changed) for each axis along which some rows changed and others did not."""
    for axis, size in enumerate(before.shape):
        others = [i for i in range(before.dim()) if i != axis]
        changed = (before != after).any(others) if others else before != after
        rows = tuple(int(i) for i in changed.nonzero()[:, 0])
        if 0 < len(rows) < size:
            yield axis, rows


def _orders(
    runner: _Runner, pushes: Pushes, seen: list[Seen]
) -> tuple[set[tuple[int, int]], dict[int, tuple[object, int]]]:
    """Try every kind at the start and after every other; return the orders that run, and a state after each kind with
    the pushes that led to it."""
    found: set[tuple[int, int]] = set()
    example = {kind_of(values): values for values in reversed(pushes.values)}
    states: dict[int, tuple[object, int]] = {-1: (runner.start(), 0)}
    waiting = [-1]
    while waiting:
        before = waiting.pop(0)
        for kind, form in enumerate(runner.kinds):
            try:
                state, one = runner.push(states[before][0], example[form])
            except CadenceError:
                continue
            seen.append(one)
            found.add((before, kind))
            if kind not in states:
                states[kind] = state, states[before][1] + 1
                waiting.append(kind)
    return found, states


@dataclass(frozen=True, slots=True)
class _Run:
    """How a long run ended: after how many pushes of the session, whether lengths repeated, or what it raised."""

    pushes: int
    settled: bool
    raised: str = ""


@dataclass(slots=True)
class _Long:
    """Long runs of one kind, with others between where it may not follow itself."""

    model: Model
    runner: _Runner
    pushes: Pushes
    states: dict[int, tuple[object, int]]
    orders: set[tuple[int, int]]
    on_meta: bool = False

    def run(self, kind: int, steps: int, seen: list[Seen]) -> _Run:
        """Push one kind until lengths repeat, for `steps` pushes at most, from a state in which it may come."""
        last = next((last for last in self.states if (last, kind) in self.orders), None)
        if last is None:
            return _Run(0, True)
        run = self._repeat(self.runner, kind, last, min(steps, 12), seen)
        return run if run.settled or run.raised else self._repeat_on_meta(kind, last, steps, seen)

    def _repeat_on_meta(self, kind: int, last: int, steps: int, seen: list[Seen]) -> _Run:
        meta = torch.device("meta")
        new: list[Seen] = []
        try:
            model = Model(_on(self.model.adapter, meta), self.model.entry, meta)
            run = self._repeat(
                _Runner(model, _call(model, self.pushes.names), self.runner.kinds), kind, last, steps, new, meta
            )
        except Exception:
            return self._repeat(self.runner, kind, last, steps, seen)
        if run.raised:
            return self._repeat(self.runner, kind, last, steps, seen)
        seen += new
        self.on_meta = True
        return run

    def _repeat(
        self, runner: _Runner, kind: int, last: int, steps: int, seen: list[Seen], device: torch.device | None = None
    ) -> _Run:
        example = {runner.kinds.index(kind_of(values)): values for values in reversed(self.pushes.values)}
        state, done = self.states[last]
        if device is not None:
            leaves = flatten(state)
            state = rebuild(state, lambda path: _moved(leaves[path], device))
            example = {number: [_moved(value, device) for value in values] for number, values in example.items()}
        settled, turn = 0, len(runner.kinds)
        for _ in range(steps):
            here = next((k for k in (kind, *range(turn)) if (last, k) in self.orders), None)
            if here is None:
                return _Run(done, True)
            try:
                state, one = runner.push(state, example[here], look=False)
            except CadenceError as error:
                return _Run(done, False, error.got or error.what)
            seen.append(one)
            last, done = here, done + 1
            settled = settled + 1 if one.before == one.after else 0
            if settled == SETTLED:
                return _Run(done, True)
        return _Run(done, False)


def _moved(value: object, device: torch.device) -> object:
    return value.to(device) if isinstance(value, Tensor) else value


def _on(adapter: object, device: torch.device) -> object:
    import copy

    moved = copy.deepcopy(adapter)
    moved.to(device)  # type: ignore[attr-defined]
    return moved
