"""From a program and a model to every state that a session can be in, and a capture for every key on the way.

Breadth-first over nodes (a configuration and one form for each leaf), from the state that `init_state` makes, through
every push that the program allows:

    node 0 --frame--> node 1 --frame--> node 2 --frame--> node 2           3 nodes, 3 keys: `kept` grows 0, 4, 8, 8
    kept 0            kept 4            kept 8 (a slice)

A stage is recorded once for each key. Every node carries states with real values on several *tracks*: the first is
recorded, the others run the stock model, and what they did is handed on to be compared with the tape. A node that is
reached through known keys only needs no run at all, unless it is new; nor does what follows the last new key of a push.
The last track stays behind at the start, and is led to where new ops are met.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch

from cadence_runtime.errors import TraceError
from cadence_runtime.format.plan import INIT, RESET, Capture, Form, Key, Node, TensorForm, Transition
from cadence_runtime.host.program import Configuration, Program, StageRun, Step
from cadence_runtime.host.step import start
from cadencec.trace.jobs import Job
from cadencec.trace.leaves import Leaves
from cadencec.trace.moves import moves
from cadencec.trace.runner import Recorded, Runner, Tracks
from cadencec.trace.state import structure


@dataclass(frozen=True, slots=True)
class Found:
    """A new key: what was recorded there, the forms of the leaves that the stage reads and of those that it leaves
    behind, by path, and of its outputs."""

    key: Key
    recorded: Recorded
    before: Mapping[str, Form]
    after: Mapping[str, Form]
    outputs: tuple[Form, ...]


Keep = Callable[[Found], int]
"""Takes what was found at a key; returns the index of the tape."""

DEFAULT_NODE_LIMIT = 20_000
FORMS_LIMIT = 64
"""Forms that one leaf may take at one configuration before the search gives up on it."""

HELD_BYTES = 2 << 30
"""States of waiting nodes that are held on the host; beyond that they are made again, by the stock model, when their
turn comes."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """What a search found, as a plan wants it. Captures have no offsets yet; capture `init` leads to node 0."""

    forms: tuple[Form, ...]
    captures: tuple[Capture, ...]
    nodes: tuple[Node, ...]
    transitions: tuple[Transition, ...]
    init: int


def explore(
    program: Program,
    runner: Runner,
    keep: Keep,
    *,
    limit: int = DEFAULT_NODE_LIMIT,
    progress: Callable[[int, int], None] = lambda done, known: None,
) -> Exploration:
    """Search everything that can happen. `progress` is told how many nodes are done and how many are known.

    Raises TraceError for a state that is not what the spec says (CAD35xx), for a search without end (CAD3601, CAD3602)
    and for everything that recording and comparing refuse.
    """
    search = _Search(program, runner, keep, limit)
    search.begin()
    done = 0
    while search.waiting:
        search.expand(search.waiting.popleft())
        done += 1
        progress(done, len(search.nodes))
    return search.result()


@dataclass(frozen=True, slots=True)
class _Place:
    """One thing that happens in a push: a stage runs, or a reset (`run` is None), or an event that does neither
    (`is_idle`). `is_first` and `is_last` say that it is the first and the last of its event."""

    step: Step
    run: StageRun | None
    is_idle: bool
    is_first: bool
    is_last: bool


@dataclass(slots=True)
class _Search:
    program: Program
    runner: Runner
    keep: Keep
    limit: int
    forms: dict[Form, int] = field(default_factory=dict)
    known: list[Form] = field(default_factory=list)
    captures: list[Capture] = field(default_factory=list)
    keys: dict[Key, int] = field(default_factory=dict)
    nodes: dict[Node, int] = field(default_factory=dict)
    structures: dict[tuple[int, ...], object] = field(default_factory=dict)
    concerns: dict[tuple[str, int | None, tuple[int, ...]], tuple[int, ...]] = field(default_factory=dict)
    seen_forms: dict[tuple[Configuration, int], set[int]] = field(default_factory=dict)
    transitions: list[Transition] = field(default_factory=list)
    waiting: deque[tuple[int, Node, Tracks | None]] = field(default_factory=deque)
    origins: list[tuple[int, tuple[Step, ...]]] = field(default_factory=list)
    root: Tracks = field(default_factory=lambda: Tracks([]))
    held_bytes: int = 0
    held_limit: int = 0

    @property
    def leaves(self) -> Leaves:
        return self.runner.leaves

    def begin(self) -> None:
        """Record the start and make node 0."""
        configuration = start(self.program)
        recorded, tracks = self.runner.begin()
        self.leaves.check(configuration, tracks.forms, INIT, tracks.seen)
        self._capture(Key(INIT, (), (), ()), recorded, tracks)
        self.root, self.held_limit = tracks, held_limit(self.runner.device)
        self._arrive(configuration, tracks, (0, ()))

    def expand(self, item: tuple[int, Node, Tracks | None]) -> None:
        """Follow every push that may happen at a node."""
        source, node, tracks = item
        self.held_bytes -= tracks.size_bytes if tracks else 0
        for event, choices, steps in moves(self.program, node.configuration):
            places = self._places(steps)
            known = self._follow_known(node.forms, {}, places)
            if known is None:
                tracks = tracks or self._lead(self.root.copy(), source)
                known = self._follow(tracks.copy(), source, steps, places)
            self.transitions.append(Transition(source, event, choices, *known))

    def _places(self, steps: Sequence[Step]) -> list[_Place]:
        """Return what happens in a push, in order."""
        found: list[_Place] = []
        for step in steps:
            todo: list[StageRun | None] = [*step.runs]
            todo += [None] * self._resets(step)
            is_idle = not todo
            todo = todo or [None]
            found += [_Place(step, run, is_idle, n == 0, n + 1 == len(todo)) for n, run in enumerate(todo)]
        return found

    def _follow(
        self, tracks: Tracks, source: int, steps: tuple[Step, ...], places: Sequence[_Place]
    ) -> tuple[tuple[int, ...], int]:
        """Run the model through a push that has something new, which is recorded; return its captures and the node that
        it leads to. Once the rest is known it need not run."""
        captures: list[int] = []
        for number, place in enumerate(places):
            known = len(self.captures)
            captures += self._at(place, tracks, partial(self._third, source, places[:number]))
            if len(self.captures) > known and number + 1 < len(places):
                forms = self._form_indices(tracks.forms)
                rest = self._follow_known(forms, tracks.passed_forms, places[number + 1 :])
                if rest is not None:
                    return (*captures, *rest[0]), rest[1]
        return tuple(captures), self._arrive(steps[-1].after, tracks, (source, steps))

    def _at(self, place: _Place, tracks: Tracks, third: Callable[[], Tracks]) -> list[int]:
        """Let one thing happen on all tracks; return its capture, or none for an event that runs nothing."""
        if place.is_first:
            tracks.begin_event()
        captures = []
        if not place.is_idle:
            try:
                captures.append(self._run(place.run, tracks, third))
            except TraceError as error:
                raise _at_run(error, place.step, place.run, self.runner) from error.__cause__
        if place.is_last:
            self.leaves.check(place.step.after, tracks.forms, place.step.event, tracks.seen)
        return captures

    def _third(self, source: int, places: Sequence[_Place]) -> Tracks:
        """Return the last track, led into the middle of a push."""
        tracks = self._lead(self.root.last(), source)
        for place in places:
            self._at(place, tracks, lambda: tracks)
        return tracks

    def _lead(self, tracks: Tracks, node: int) -> Tracks:
        """Lead tracks from the start to a node, by the way on which it was found; the stock model runs."""
        way = []
        while node != 0:
            way.append(self.origins[node])
            node = way[-1][0]
        for _, steps in reversed(way):
            for place in self._places(steps):
                self._at(place, tracks, lambda: tracks)
        return tracks

    def _follow_known(
        self, forms: Sequence[int], passed: Mapping[str, Form], places: Sequence[_Place]
    ) -> tuple[tuple[int, ...], int] | None:
        """Follow by forms alone, from where an event has passed these outputs on; None as soon as a key or the node at
        the end is new, or what an event on the way leaves is not what the spec says."""
        forms, passed, captures = list(forms), dict(passed), []
        for place in places:
            passed = {} if place.is_first else passed
            if not place.is_idle:
                key = self._reset_key(forms) if place.run is None else self._key(place.run, forms, passed)
                index = self.keys.get(key)
                if index is None:
                    return None
                captures.append(index)
                self._apply(index, forms)
                if place.run is not None:
                    outputs = self.runner.stage(place.run.stage).outputs
                    passed.update(zip(outputs, self.captures[index].outputs, strict=True))
            if place.is_last and not self.leaves.fit(place.step.after, [self.known[form] for form in forms]):
                return None
        target = self.nodes.get(Node(places[-1].step.after, tuple(forms)))
        return None if target is None else (tuple(captures), target)

    def _apply(self, capture: int, forms: list[int]) -> None:
        for leaf, form in self.captures[capture].writes:
            forms[leaf] = form

    def _resets(self, step: Step) -> bool:
        return any(event.reset for event in self.program.events if event.name == step.event)

    def _key(self, run: StageRun, forms: Sequence[int], passed: Mapping[str, Form]) -> Key:
        args = run.args if run.index is None else (*run.args, run.index)
        state = self._concerns(self.runner.job(run, self.runner.traced), run.index, tuple(forms))
        return Key(run.stage, args, self.runner.input_forms(run, passed), state)

    def _reset_key(self, forms: Sequence[int]) -> Key:
        return Key(RESET, (), (), self._concerns(self.runner.traced.reset(), None, tuple(forms)))

    def _concerns(self, job: Job, index: int | None, forms: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Return the leaves that a job depends on with their forms."""
        leaves = self.concerns.get((job.name, index, forms))
        if leaves is None:
            leaves = self.concerns[job.name, index, forms] = job.concerns([self.known[form] for form in forms])
        return tuple((leaf, forms[leaf]) for leaf in leaves)

    def _run(self, run: StageRun | None, tracks: Tracks, third: Callable[[], Tracks]) -> int:
        """Run one stage, or a reset, on all tracks, recording it when its key is new; return its capture."""
        forms, runner = self._form_indices(tracks.forms), self.runner
        if run is None:
            key, traced, stock = self._reset_key(forms), runner.traced.reset(), runner.stock.reset()
        else:
            key = self._key(run, forms, tracks.passed_forms)
            traced, stock = runner.job(run, runner.traced), runner.job(run, runner.stock)
        index = self.keys.get(key)
        if index is None:
            return self._capture(key, runner.record(traced, stock, run, tracks, third), tracks)
        runner.run(stock, run, tracks)
        return index

    def _capture(self, key: Key, recorded: Recorded, tracks: Tracks) -> int:
        forms = self._form_indices(tracks.forms)
        paths = self.leaves.paths
        before = {paths[leaf]: self.known[form] for leaf, form in key.state}
        written = [leaf for leaf, path in enumerate(paths) if path in recorded.recording.state]
        after = {paths[leaf]: tracks.forms[leaf] for leaf in written}
        tape = self.keep(Found(key, recorded, before, after, tracks.output_forms))
        self.keys[key] = len(self.captures)
        writes = tuple((leaf, forms[leaf]) for leaf in written)
        self.captures.append(Capture(key, tape, writes, tracks.output_forms, (), (), ()))
        return self.keys[key]

    def _arrive(self, configuration: Configuration, tracks: Tracks, origin: tuple[int, tuple[Step, ...]]) -> int:
        """Return the node of a settled session, made when it is new; `origin` is the way that led there."""
        node = Node(configuration, self._form_indices(tracks.forms))
        index = self.nodes.get(node)
        shape = structure(tracks.samples[0].template)
        if self.structures.setdefault(node.forms, shape) != shape:
            raise _ambiguous(origin[1][-1].event)
        if index is not None:
            return index
        self._check_limits(node)
        index = self.nodes[node] = len(self.nodes)
        self.origins.append(origin)
        is_held = self.held_bytes + tracks.size_bytes <= self.held_limit
        self.held_bytes += tracks.size_bytes if is_held else 0
        self.waiting.append((index, node, tracks.copy() if is_held else None))
        return index

    def _check_limits(self, node: Node) -> None:
        for leaf, form in enumerate(node.forms):
            seen = self.seen_forms.setdefault((node.configuration, leaf), set())
            seen.add(form)
            if len(seen) > FORMS_LIMIT:
                raise _endless_forms(self.leaves.paths[leaf], [self.known[i] for i in sorted(seen)[-2:]])
        if len(self.nodes) >= self.limit:
            raise _too_many(self.limit)

    def _form_indices(self, forms: Sequence[Form]) -> tuple[int, ...]:
        for form in forms:
            if form not in self.forms:
                self.forms[form] = len(self.known)
                self.known.append(form)
        return tuple(self.forms[form] for form in forms)

    def result(self) -> Exploration:
        return Exploration(tuple(self.known), tuple(self.captures), tuple(self.nodes), tuple(self.transitions), 0)


def held_limit(device: torch.device) -> int:
    """Return how many bytes of waiting states may be held: half of what is free on a device with memory of its own."""
    return torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else HELD_BYTES


def _at_run(error: TraceError, step: Step, run: StageRun | None, runner: Runner) -> TraceError:
    """Return a failure of the model's own code with what it ran on; other errors as they are."""
    if error.code != "CAD3007" or run is None:
        return error
    stage = runner.stage(run.stage)
    inputs = zip(stage.inputs, run.inputs, strict=True)
    found = [f"`{item.name}` {list(given)}" for item, given in inputs if isinstance(given, tuple)]
    found += [f"`{name}` {length} long" for name, length in zip(stage.reads, run.lengths, strict=True)]
    found += [f"{name} = {value}" for name, value in zip(stage.args, run.args, strict=True)]
    got = f"{error.got}; in event `{step.event}` with " + (", ".join(found) or "no input")
    return TraceError(error.code, error.what, expected=error.expected, got=got, at=error.at, hint=error.hint)


def _ambiguous(event: str) -> TraceError:
    return TraceError(
        "CAD3507",
        f"the state after `{event}` has the leaves of an earlier one in another nest",
        expected="one nest of dicts, lists and tuples for the same leaves",
        got="None where a container was, or the other way round",
        hint="keep the containers and set their leaves to None",
    )


def _endless_forms(path: str, forms: Sequence[Form]) -> TraceError:
    shown = [
        f"sizes {list(form.sizes)}, strides {list(form.strides)}, offset {form.offset}"
        for form in forms
        if isinstance(form, TensorForm)
    ]
    return TraceError(
        "CAD3602",
        f"the layout of the state leaf `{path}` changes for ever at one configuration",
        expected=f"at most {FORMS_LIMIT} layouts",
        got=" then ".join(shown) + " ...",
        hint="make the new state contiguous in the model, or declare `layout: contiguous` for its region",
    )


def _too_many(limit: int) -> TraceError:
    return TraceError(
        "CAD3601",
        "the search found more states of a session than its limit",
        expected=f"at most {limit} nodes",
        got=f"{limit} nodes, and more to come",
        hint="bound the spec with `horizon` or `retain`, or raise the limit",
    )
