"""Runs a model on real states: one track is recorded, the others run the stock model untraced.

    track 0   recorded where the key is new; where its ops are new as well, run by the stock model on the same values
    track 1   run by the stock model on values of its own
    track 2   the same, but where the ops are new only: it is led there when it is wanted

What the stock model did becomes an `Execution`, to be compared with the tape. Every run starts from a seed that
depends on nothing but its place in the search, and states are kept in canonical placement (`state.py`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from cadence_runtime.errors import TraceError
from cadence_runtime.format.plan import INIT, Form, TensorForm
from cadence_runtime.format.tape import Tape, View
from cadence_runtime.host.program import Program, Stage, StageRun
from cadence_runtime.host.step import start
from cadencec.trace import draws
from cadencec.trace.jobs import Job, Jobs, Outcome
from cadencec.trace.leaves import Leaves, undeclared
from cadencec.trace.moves import moves
from cadencec.trace.neutral import neutral
from cadencec.trace.operands import encode_literal
from cadencec.trace.parts import Parts
from cadencec.trace.recorder import Recording, Weights, record
from cadencec.trace.state import Sample, Value, contiguous_form, flatten, forms_of, place
from cadencec.trace.template import Template
from cadencec.trace.values import SCALES, random_tensor

TRACKS = 3


Results = tuple[tuple[Value, ...], dict[str, Value]]
"""Outputs by position and new leaves by path, copied."""


Topology = tuple[str, tuple[str, ...]]
"""A stage and its sequence of ops: what tapes of one stage mostly share."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What the stock model did in one run: from `inputs`, the leaves before and generators at `seed`, to outputs, the
    new leaves by path and the generators' states. `again` makes fresh copies and returns what runs it once more, from
    wherever the generators then stand, to the same two results."""

    inputs: Mapping[str, Value]
    leaves: Mapping[str, Value]
    seed: int
    outputs: tuple[Value, ...]
    state: Mapping[str, Value]
    generators: tuple[Tensor, ...]
    again: Callable[[], Callable[[], Results]]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A new key: what was recorded on which values, whether its ops are new, and what the stock model did to compare
    with; where the ops are new, first on the values of the recording."""

    recording: Recording
    inputs: Mapping[str, Value]
    leaves: Mapping[str, Value]
    is_new: bool
    executions: Sequence[Execution]


@dataclass(slots=True)
class Tracks:
    """Sessions side by side at one node. `forms` are those of the leaves; `passed` the outputs of earlier stages of the
    event, by track and name; `output_forms` those of the last run; `seen` the paths of the last state; `first` is the
    number of the first track."""

    samples: list[Sample]
    forms: tuple[Form, ...] = ()
    passed: list[dict[str, Value]] = field(default_factory=list)
    passed_forms: dict[str, Form] = field(default_factory=dict)
    output_forms: tuple[Form, ...] = ()
    seen: tuple[str, ...] = ()
    first: int = 0

    def copy(self) -> "Tracks":
        """Return tracks that can move on while these stay; samples are never written, so they are shared."""
        return Tracks(list(self.samples), self.forms, seen=self.seen, first=self.first)

    def last(self) -> "Tracks":
        """Return a copy of the last track alone."""
        return Tracks(self.samples[-1:], self.forms, seen=self.seen, first=self.first + len(self.samples) - 1)

    def join(self, other: "Tracks") -> None:
        """Take in tracks that have come to the same place."""
        self.samples += other.samples
        self.passed += other.passed

    def drop(self, number: int) -> None:
        """Go on without the tracks from a number on."""
        del self.samples[number:], self.passed[number:]

    @property
    def size_bytes(self) -> int:
        """The bytes of all states."""
        values = (value for sample in self.samples for value in sample.values)
        return sum(value.untyped_storage().nbytes() for value in values if isinstance(value, Tensor))

    def begin_event(self) -> None:
        """Forget the outputs of the event before."""
        self.passed, self.passed_forms = [{} for _ in self.samples], {}


@dataclass(slots=True)
class Runner:
    """Runs `traced` under the recorder and `stock` as it is; the two share nothing. `parts` is told how long each
    takes; `runs` counts, for the seeds; `templates` has a recording of each sequence of ops met so far, `latest` the
    one that each stage came to last."""

    program: Program
    leaves: Leaves
    traced: Jobs
    stock: Jobs
    weights: Weights
    device: torch.device
    parts: Parts = field(default_factory=Parts)
    runs: int = 0
    templates: dict[Topology, Template] = field(default_factory=dict)
    latest: dict[str, Topology] = field(default_factory=dict)

    def stage(self, name: str) -> Stage:
        """Return a stage of the program by name."""
        return next(stage for stage in self.program.stages if stage.name == name)

    def job(self, run: StageRun, jobs: Jobs) -> Job:
        """Return one run of a stage as a job."""
        return jobs.stage(self.stage(run.stage), run)

    def input_forms(self, run: StageRun, passed: Mapping[str, Form]) -> tuple[Form, ...]:
        """Return the forms of a stage's inputs: contiguous tensors and literals of the event, or what an earlier stage
        passed on."""
        forms: list[Form] = []
        for item, given in zip(self.stage(run.stage).inputs, run.inputs, strict=True):
            if given is None:
                forms.append(passed[item.name])
            elif isinstance(given, str):
                forms.append(encode_literal(json.loads(given), self.device))
            else:
                forms.append(contiguous_form(item.dtype, given))
        return tuple(forms)

    def begin(self) -> tuple[Recorded, Tracks]:
        """Record `init_state`. Raises TraceError CAD3503 with what a Python int did in a first step."""
        self._refuse_ints()
        tracks = Tracks([Sample(None, (None,) * len(self.leaves.declared)) for _ in range(TRACKS)])
        tracks.forms = forms_of(tracks.samples[0].values)
        return self.record(self.traced.start(), self.stock.start(), None, tracks, lambda: tracks), tracks

    def record(
        self, traced: Job, stock: Job, run: StageRun | None, tracks: Tracks, third: Callable[[], Tracks]
    ) -> Recorded:
        """Record a job on the first track and run the stock model to compare; move the tracks on. `third` leads the
        last track to where the others stand."""
        self.runs += 1
        inputs, leaves = self._inputs(run, tracks, 0), self._leaves(traced, tracks)
        with self.parts("record"):
            recording, outcome, is_new = self._record(traced, tracks.samples[0], tracks.forms, inputs)
        if not is_new:
            tracks.drop(TRACKS - 1)
        elif len(tracks.samples) < TRACKS:
            tracks.join(third())
            self.runs += 1
        # The recorded run stands for the stock model's on its track where neither is compared.
        executions, outcomes = list[Execution](), [] if is_new else [outcome]
        for track in range(len(outcomes), len(tracks.samples)):
            given = inputs if track == 0 else self._inputs(run, tracks, track)
            executed, done = self._execute(stock, tracks.samples[track], tracks.forms, given, track)
            executions.append(executed)
            outcomes.append(done)
        self._move(stock, tracks, self._forms(outcome.values), outcomes, outcome.outputs)
        return Recorded(recording, inputs, leaves, is_new, executions)

    def run(self, stock: Job, run: StageRun | None, tracks: Tracks) -> None:
        """Run the stock model on all tracks and move them on."""
        self.runs += 1
        outcomes = []
        for track, sample in enumerate(tracks.samples):
            inputs = self._inputs(run, tracks, track)
            outcomes.append(self._execute(stock, sample, tracks.forms, inputs, track)[1])
        self._move(stock, tracks, self._forms(outcomes[0].values), outcomes, outcomes[0].outputs)

    def _record(
        self, job: Job, sample: Sample, forms: Sequence[Form], inputs: Mapping[str, Value]
    ) -> tuple[Recording, Outcome, bool]:
        """Record a job, along the template of the sequence of ops that it came to last; return as well whether its ops
        are new. One that departs from the template is recorded again, along another known one or with its source
        lines, which cost more than the rest."""
        expected = self.latest.get(job.name)
        while expected is not None:
            try:
                recording, outcome = self._record_once(job, sample, forms, inputs, self.templates[expected])
            except TraceError:
                break
            found = topology(recording.tape)
            if not recording.departed:
                self.latest[job.name] = found
                return recording, outcome, False
            expected = found if expected == self.latest[job.name] and found != expected else None
            expected = expected if expected in self.templates else None
        recording, outcome = self._record_once(job, sample, forms, inputs, None)
        self.latest[job.name] = found = topology(recording.tape)
        is_new = found not in self.templates
        self.templates[found] = recording.template
        return recording, outcome, is_new

    def _record_once(
        self, job: Job, sample: Sample, forms: Sequence[Form], inputs: Mapping[str, Value], template: Template | None
    ) -> tuple[Recording, Outcome]:
        paths, done = self.leaves.paths, []
        sample, inputs = sample.copy(forms), copies(inputs)

        def call() -> tuple[Sequence[Value], Mapping[str, Value]]:
            outcome = job.run(sample, tuple(inputs.values()))
            done.append(outcome)
            return outcome.outputs, {paths[i]: outcome.values[i] for i in self._written(job, forms, outcome)}

        draws.seed(self._seed(0))
        leaves: dict[str, Value] = {paths[i]: sample.values[i] for i in job.concerns(forms)}
        recording = record(
            job.name,
            call,
            inputs,
            leaves,
            self.weights,
            names=job.outputs,
            device=self.device,
            template=template,
        )
        _refuse_hidden_writes(recording, job, {paths[i] for i in job.writes})
        return recording, done[-1]

    def _execute(
        self, job: Job, sample: Sample, forms: Sequence[Form], inputs: Mapping[str, Value], track: int
    ) -> tuple[Execution, Outcome]:
        paths, seed, outcomes = self.leaves.paths, self._seed(track), []

        def again() -> Callable[[], Results]:
            working, given = sample.copy(forms), tuple(copies(inputs).values())

            def run() -> Results:
                with neutral():
                    outcome = job.run(working, given)
                outcomes.append(outcome)
                outputs = tuple(copy_of(value) for value in outcome.outputs)
                written = self._written(job, forms, outcome)
                return outputs, {paths[i]: copy_of(outcome.values[i]) for i in written}

            return run

        run = again()
        draws.seed(seed)
        with self.parts("stock"):
            outputs, state = run()
        leaves = {paths[i]: sample.values[i] for i in job.concerns(forms)}
        execution = Execution(inputs, leaves, seed, outputs, state, generator_states(self.device), again)
        return execution, outcomes[0]

    def _move(
        self, job: Job, tracks: Tracks, forms: tuple[Form, ...], outcomes: list[Outcome], outputs: Sequence[Value]
    ) -> None:
        """Let each track stand where the stock model left it. All tracks must have come to the same forms."""
        for outcome in outcomes:
            if self._forms(outcome.values) != forms:
                raise _strays(job, self.leaves, forms, self._forms(outcome.values))
        tracks.samples = [Sample(o.template, place(forms, o.values)) for o in outcomes]
        tracks.forms, tracks.seen = forms, outcomes[0].seen
        tracks.output_forms = tuple(
            self._output_form(name, value) for name, value in zip(job.outputs, outputs, strict=True)
        )
        tracks.passed_forms.update(zip(job.outputs, tracks.output_forms, strict=True))
        for passed, outcome in zip(tracks.passed, outcomes, strict=False):
            values = (
                place((form,), (value,))[0] for form, value in zip(tracks.output_forms, outcome.outputs, strict=True)
            )
            passed.update(zip(job.outputs, values, strict=True))

    def _leaves(self, job: Job, tracks: Tracks) -> dict[str, Value]:
        """Return the leaves that a job depends on, as they are on the first track."""
        values = tracks.samples[0].values
        return {self.leaves.paths[i]: values[i] for i in job.concerns(tracks.forms)}

    def _written(self, job: Job, forms: Sequence[Form], outcome: Outcome) -> list[int]:
        """Return the leaves that a job leaves behind: those that it writes, and those that are tied otherwise now. One
        that it neither got nor gave back stays as it is."""
        after, known = self._forms(outcome.values), {*job.concerns(forms), *outcome.returned}
        return [i for i in range(len(after)) if (i in job.writes and i in known) or after[i] != forms[i]]

    def _forms(self, values: Sequence[Value]) -> tuple[Form, ...]:
        return forms_of(values, self.leaves.contiguous)

    def _output_form(self, name: str, value: Value) -> Form:
        """Return the form in which an output is kept: as it is where a stage takes it, else contiguous."""
        if not isinstance(value, Tensor):
            return encode_literal(value, self.device)
        is_taken = any(item.name == name for stage in self.program.stages for item in stage.inputs)
        (form,) = forms_of((value,), (not is_taken,))
        return replace(form, slot=-1) if isinstance(form, TensorForm) else form

    def _inputs(self, run: StageRun | None, tracks: Tracks, track: int) -> dict[str, Value]:
        """Return the values of a stage's inputs on one track."""
        values: dict[str, Value] = {}
        for position, item in enumerate(self.stage(run.stage).inputs if run else ()):
            given = run.inputs[position] if run else None
            if given is None:
                values[item.name] = tracks.passed[track][item.name]
            elif isinstance(given, str):
                values[item.name] = json.loads(given)
            else:
                number = tracks.first + track
                value = random_tensor(item, given, self._seed(number, position + 1), SCALES[number % len(SCALES)])
                values[item.name] = value.to(self.device)
        return values

    def _seed(self, track: int, part: int = 0) -> int:
        return (self.runs << 20) + (track << 12) + part

    def _refuse_ints(self) -> None:
        """Look what undeclared ints of the state do in a first step, so that the message can say it."""
        with neutral():
            state = flatten(self.stock.model.init_state(), "the state after `init`")
            strange = [path for path in self.leaves.undeclared(state) if not isinstance(state[path], Tensor)]
            after = self._first_state() if strange and not self.stock.model.has_stages else {}
        for path in strange:
            changed = f"changed {state[path]} -> {after[path]}" if path in after else ""
            raise undeclared(path, state[path], INIT, self.stock.model.line_of(INIT), changed)

    def _first_state(self) -> dict[str, Value]:
        """Return the leaves after the first event that may happen, as the stock model leaves them."""
        _, _, steps = next(moves(self.program, start(self.program)))
        run = next((run for step in steps for run in step.runs), None)
        if run is None:
            return {}
        inputs = self._inputs(run, Tracks([]), 0)
        stage = self.stage(run.stage)
        args = dict(zip(stage.args, run.args, strict=True))
        return flatten(self.stock.model.stage(stage)(self.stock.model.init_state(), args, tuple(inputs.values()))[0])


def topology(tape: Tape) -> Topology:
    """Return the topology of a tape; views are none of it."""
    return tape.stage, tuple(op.name for op in tape.ops if op.reads or op.writes)


def generator_states(device: torch.device) -> tuple[Tensor, ...]:
    """Return where the default generators of the host and of the device stand."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return tuple(states)


def copy_of(value: Value) -> Value:
    """Return a tensor's elements in a tensor of its own, other values as they are."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def copies(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return copies of named values, strides kept."""
    return {name: place(forms_of((value,)), (value,))[0] for name, value in values.items()}


def _refuse_hidden_writes(recording: Recording, job: Job, written: set[str]) -> None:
    """A stage must not change in place a leaf that it only reads, unless that is tied to one that it writes."""
    tape = recording.tape
    views = [(binding.name, binding.value) for binding in tape.state_in if isinstance(binding.value, View)]
    allowed = {view.storage for name, view in views if name in written}
    kept = {view.storage: name for name, view in reversed(views) if view.storage not in allowed}
    for op in tape.ops:
        for index in sorted(kept.keys() & set(op.writes)):
            raise TraceError(
                "CAD3603",
                f"stage `{job.name}` changes the state leaf `{kept[index]}` in place but does not write it",
                expected="a leaf of a region among the stage's `writes`",
                got=f"`{op.name}`",
                at=op.source or None,
                hint="add its region to `writes`",
            )


def _strays(job: Job, leaves: Leaves, expected: Sequence[Form], got: Sequence[Form]) -> TraceError:
    path, told, found = next(row for row in zip(leaves.paths, expected, got, strict=True) if row[1] != row[2])
    return TraceError(
        "CAD3704",
        f"the state leaf `{path}` takes another form when `{job.name}` runs on other values",
        expected=str(told),
        got=str(found),
        hint="something that no recorder sees decides its shape: a Python value, `.numpy()`, `.tolist()`",
    )
