"""The three things that a model is asked to do, each as one function from a state to a state: start, reset, a stage.

A model with one `step` takes and returns its whole nest. A stage of a model with `stages` takes the leaves that it
reads as a dict by path, and returns those that it changed; of an indexed region it gets and returns one row.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from cadence_runtime.errors import TraceError
from cadence_runtime.format.plan import INIT, RESET, Form, Key, TensorForm
from cadence_runtime.host.program import Program, Stage, StageRun
from cadencec.trace.leaves import Leaves, row_of
from cadencec.trace.model import Model, StageCall
from cadencec.trace.state import Sample, Value, flatten, skeleton


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job did: its outputs, the nest of the new state, all declared leaves, and what the model returned: the
    paths of its leaves, and the positions of those that are declared."""

    outputs: tuple[Value, ...]
    template: object
    values: tuple[Value, ...]
    seen: tuple[str, ...]
    returned: frozenset[int]


Run = Callable[[Sample, Sequence[Value]], Outcome]


@dataclass(frozen=True, slots=True)
class Job:
    """`reads` and `writes` are positions of leaves, `outputs` names. `run` works on the sample's own tensors."""

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    outputs: tuple[str, ...]
    run: Run

    def concerns(self, forms: Sequence[Form]) -> tuple[int, ...]:
        """Return the leaves that a capture of the job depends on: those that it reads or that are tied to one of these,
        and those that it does not write but that are tied to one that it does."""
        read, written = ({slot_of(forms[i]) for i in found} - {None} for found in (self.reads, self.writes))
        return tuple(
            i
            for i, slot in enumerate(map(slot_of, forms))
            if i in self.reads or slot in read or (slot in written and i not in self.writes)
        )


def slot_of(form: Form) -> int | None:
    """Return the slot that a form lies in; None for a literal."""
    return form.slot if isinstance(form, TensorForm) else None


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of one model."""

    program: Program
    leaves: Leaves
    model: Model

    def start(self) -> Job:
        """`init_state`."""
        return Job(INIT, (), self._all, (), lambda sample, inputs: self._nest(self.model.init_state(), (), INIT))

    def reset(self) -> Job:
        """The model's own `reset`, or `init_state` again."""
        if not self.model.has_reset:
            again = self.start()
            return Job(RESET, (), again.writes, (), again.run)

        def run(sample: Sample, inputs: Sequence[Value]) -> Outcome:
            return self._nest(self.model.reset(sample.nest(self.leaves.wholes(sample.values, self._all))), (), RESET)

        return Job(RESET, self._all, self._all, (), run)

    def stage(self, stage: Stage, run: StageRun) -> Job:
        """One run of a stage."""
        call = self.model.stage(stage)
        args = dict(zip(stage.args, run.args, strict=True))
        if stage.repeat and run.index is not None:
            args[stage.repeat[0]] = run.index
        if not self.model.has_stages:
            return Job(stage.name, self._all, self._all, stage.outputs, self._step(call, args))
        reads, writes = (self._leaves_of(stage, regions, run.index) for regions in (stage.reads, stage.writes))
        return Job(stage.name, reads, writes, stage.outputs, self._part(call, args, reads, writes))

    def rows(self, key: Key) -> dict[str, str] | None:
        """Return the leaves that a key of a repeated stage takes row by row: path of the row, path of the whole. None
        for any other key."""
        stage = next((stage for stage in self.program.stages if stage.name == key.stage), None)
        if stage is None or stage.repeat is None:
            return None
        index = key.args[-1]
        return {
            leaf.path: leaf.whole for leaf in self.leaves.declared if leaf.owner in stage.indexed and leaf.row == index
        }

    @property
    def _all(self) -> tuple[int, ...]:
        return tuple(range(len(self.leaves.declared)))

    def _leaves_of(self, stage: Stage, regions: Sequence[str], index: int | None) -> tuple[int, ...]:
        """Return the leaves of regions, only one row of those that the stage takes so; and all counters, since a stage
        may look at those that stand in the state."""
        return tuple(
            i
            for i, leaf in enumerate(self.leaves.declared)
            if leaf.counter or (leaf.owner in regions and (leaf.owner not in stage.indexed or leaf.row == index))
        )

    def _step(self, call: StageCall, args: Mapping[str, int]) -> Run:
        def run(sample: Sample, inputs: Sequence[Value]) -> Outcome:
            state, outputs = call(sample.nest(self.leaves.wholes(sample.values, self._all)), args, inputs)
            return self._nest(state, flatten_outputs(outputs, call.stage), call.stage.name)

        return run

    def _nest(self, state: object, outputs: tuple[Value, ...], name: str) -> Outcome:
        seen = flatten(state, f"the state after `{name}`")
        values = self.leaves.read(seen, name, self.model.line_of(name))
        return Outcome(outputs, skeleton(state), values, tuple(seen), frozenset(self._all))

    def _part(self, call: StageCall, args: Mapping[str, int], reads: tuple[int, ...], writes: tuple[int, ...]) -> Run:
        """Give a stage the leaves that it reads, as it knows them, and take back those that it changed."""
        declared = self.leaves.declared
        single = {i for i in (*reads, *writes) if declared[i].owner in call.stage.indexed}
        known = [i for i in reads if i not in single]
        written = {declared[i].whole for i in writes}

        def run(sample: Sample, inputs: Sequence[Value]) -> Outcome:
            given = self.leaves.wholes(sample.values, known)
            given |= {declared[i].whole: sample.values[i] for i in reads if i in single}
            state, outputs = call(dict(given), args, inputs)
            changed = flatten_part(state, written, call.stage)
            values, returned = list(sample.values), [i for i in writes if declared[i].whole in changed]
            for i in returned:
                value = changed[declared[i].whole]
                values[i] = value if i in single else row_of(value, declared[i].row)
            flat = flatten_outputs(outputs, call.stage)
            return Outcome(flat, sample.template, tuple(values), tuple(given | changed), frozenset(returned))

        return run


def flatten_outputs(outputs: object, stage: Stage) -> tuple[Value, ...]:
    """Return the outputs of a stage in flattening order; a bare None is no output where none is declared."""
    if outputs is None and not stage.outputs:
        return ()
    return tuple(flatten(outputs, f"the outputs of `{stage.name}`").values())


def flatten_part(state: object, written: Collection[str], stage: Stage) -> dict[str, Value]:
    """Return the leaves that a stage gives back by path. Raises TraceError CAD3412 for one that it does not write."""
    if state is None:
        return {}
    if not isinstance(state, dict) or any(path not in written for path in state):
        strange = [f"`{path}`" for path in state if path not in written] if isinstance(state, dict) else []
        raise TraceError(
            "CAD3412",
            f"stage `{stage.name}` returns state that it does not write",
            expected="a dict by path with some of " + (", ".join(f"`{path}`" for path in sorted(written)) or "nothing"),
            got=", ".join(strange) or f"`{type(state).__name__}`",
            hint=f"declare it in the spec: `stages: {{{stage.name}: {{writes: [...]}}}}`",
        )
    return flatten(state, f"the state after `{stage.name}`")
