"""From a program and a model to every state that a session can be in, and a capture for every key on the way.

Breadth-first over nodes (a configuration and one form for each leaf), from the state that `init_state` makes, through
every push that the program allows:

    node 0 --frame--> node 1 --frame--> node 2 --frame--> node 2           3 nodes, 3 keys: `kept` grows 0, 4, 8, 8
    kept 0            kept 4            kept 8 (a slice)

A stage is recorded once for each key. Every node carries states with real values on several *tracks*: the first is
recorded, the others run the stock model, and what they did is handed on to be compared with the tape. A node that is
reached through known keys only needs no run at all, unless it is new. The last track stays behind at the start, and is
led to where new ops are met.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

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
"""States of waiting nodes that are held; beyond that they are made again, by the stock model, when their turn comes."""


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


@dataclass(slots=True)
class _Search:
    program: Program
    runner: Runner
    keep: Keep
    limit: int
    forms: dict[Form, int] = field(default_factory=dict)
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

    @property
    def leaves(self) -> Leaves:
        return self.runner.leaves

    def begin(self) -> None:
        """Record the start and make node 0."""
        configuration = start(self.program)
        recorded, tracks = self.runner.begin()
        self.leaves.check(configuration, tracks.forms, INIT, tracks.seen)
        self._capture(Key(INIT, (), (), ()), recorded, tracks)
        self.root = tracks
        self._arrive(configuration, tracks.copy(), (0, ()))

    def expand(self, item: tuple[int, Node, Tracks | None]) -> None:
        """Follow every push that may happen at a node."""
        source, node, tracks = item
        self.held_bytes -= tracks.size_bytes if tracks else 0
        for event, choices, steps in moves(self.program, node.configuration):
            known = self._follow_known(node, steps)
            if known is None:
                tracks = tracks or self._lead(self.root.copy(), source)
                moving = tracks.copy()
                known = self._follow(moving, source, steps), self._arrive(steps[-1].after, moving, (source, steps))
            self.transitions.append(Transition(source, event, choices, *known))

    def _follow(self, tracks: Tracks, source: int, steps: Sequence[Step], stop: int | None = None) -> tuple[int, ...]:
        """Run the model through a push and return its captures; what is new is recorded. With `stop` so many stages
        run, all of them known."""
        captures: list[int] = []
        for step in steps:
            tracks.begin_event()
            runs: list[StageRun | None] = [*step.runs]
            for run in runs + [None] * self._resets(step):
                if len(captures) == stop:
                    return tuple(captures)
                third = partial(self._third, source, steps, len(captures))
                try:
                    captures.append(self._run(run, tracks, third))
                except TraceError as error:
                    raise _at_run(error, step, run, self.runner) from error.__cause__
            self.leaves.check(step.after, tracks.forms, step.event, tracks.seen)
        return tuple(captures)

    def _third(self, source: int, steps: Sequence[Step], done: int) -> Tracks:
        """Return the last track, led into the middle of a push."""
        tracks = self._lead(self.root.last(), source)
        self._follow(tracks, source, steps, done)
        return tracks

    def _lead(self, tracks: Tracks, node: int) -> Tracks:
        """Lead tracks from the start to a node, by the way on which it was found; the stock model runs."""
        way = []
        while node != 0:
            way.append(self.origins[node])
            node = way[-1][0]
        for source, steps in reversed(way):
            self._follow(tracks, source, steps)
        return tracks

    def _follow_known(self, node: Node, steps: Sequence[Step]) -> tuple[tuple[int, ...], int] | None:
        """Follow by forms alone; None as soon as a key or the node at the end is new."""
        forms, captures = list(node.forms), []
        for step in steps:
            passed: dict[str, Form] = {}
            for run in step.runs:
                index = self.keys.get(self._key(run, forms, passed))
                if index is None:
                    return None
                captures.append(index)
                self._apply(index, forms)
                passed.update(zip(self.runner.stage(run.stage).outputs, self.captures[index].outputs, strict=True))
            if self._resets(step):
                index = self.keys.get(self._reset_key(forms))
                if index is None:
                    return None
                captures.append(index)
                self._apply(index, forms)
        target = self.nodes.get(Node(steps[-1].after, tuple(forms)))
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
            known = list(self.forms)
            leaves = self.concerns[job.name, index, forms] = job.concerns([known[form] for form in forms])
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
        known, paths = list(self.forms), self.leaves.paths
        before = {paths[leaf]: known[form] for leaf, form in key.state}
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
        is_held = self.held_bytes + tracks.size_bytes <= HELD_BYTES
        self.held_bytes += tracks.size_bytes if is_held else 0
        self.waiting.append((index, node, tracks if is_held else None))
        return index

    def _check_limits(self, node: Node) -> None:
        known = list(self.forms)
        for leaf, form in enumerate(node.forms):
            seen = self.seen_forms.setdefault((node.configuration, leaf), set())
            seen.add(form)
            if len(seen) > FORMS_LIMIT:
                raise _endless_forms(self.leaves.paths[leaf], [known[i] for i in sorted(seen)[-2:]])
        if len(self.nodes) >= self.limit:
            raise _too_many(self.limit)

    def _form_indices(self, forms: Sequence[Form]) -> tuple[int, ...]:
        return tuple(self.forms.setdefault(form, len(self.forms)) for form in forms)

    def result(self) -> Exploration:
        return Exploration(tuple(self.forms), tuple(self.captures), tuple(self.nodes), tuple(self.transitions), 0)


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
