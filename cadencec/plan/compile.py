"""The whole job: from a Spec to a Plan in memory.

    Spec -> models -> exploration: recordings -> passes -> comparison -> scratch -> walk -> Plan

Three models are built from the same entry: one is recorded, one is the stock model for single runs, and one, fresh, for
the walk at the end. Nothing here writes a file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from cadence_runtime.cpu.check import op_faults
from cadence_runtime.cpu.environment import environment
from cadence_runtime.cuda.driver import system_driver
from cadence_runtime.errors import TraceError, raise_all
from cadence_runtime.format.plan import Fidelity, Plan, Target
from cadence_runtime.format.tape import Tape
from cadencec.passes.pipeline import ALL, optimise
from cadencec.passes.program import Program
from cadencec.plan.assemble import Traced, assemble
from cadencec.plan.external import externalise
from cadencec.plan.holdable import Holdable
from cadencec.plan.pool import TapePool
from cadencec.plan.published import load_published
from cadencec.plan.release import digests, read_release
from cadencec.spec.spec import Spec
from cadencec.targets.backend import Backend, Finding
from cadencec.targets.cpu.lower import NOT_LOWERED, Lowered, lower
from cadencec.timeline import build
from cadencec.trace.determinism import TRIES, check_deterministic
from cadencec.trace.explore import DEFAULT_NODE_LIMIT, Exploration, Found, explore
from cadencec.trace.fidelity import Outputs, check_same_weights, check_tape
from cadencec.trace.jobs import Jobs
from cadencec.trace.leaves import declared_leaves
from cadencec.trace.model import load_model
from cadencec.trace.neutral import settled
from cadencec.trace.numerics import applied, shown
from cadencec.trace.parts import Parts
from cadencec.trace.runner import TRACKS, Runner
from cadencec.trace.walk import Tapes, Walked, walk
from cadencec.trace.weights import Weights, collect_weights

WALK_EVENTS = 64
WALK_SEED = 1

_SEED_HINT = "seed the generators inside of `build`, or load the weights from a file"
_CLONE_HINT = "a session must change nothing but its state: clone what the state starts from"


Progress = Callable[[str, int, int], None]
"""Is told the phase, how many of its steps are done, and how many are known."""


def silent(phase: str, done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """A plan, and what a report shows besides. `recorded` has the first recording behind each tape, before any pass,
    where recordings were to be kept; `recorded_ops` counts the ops of them all; `unplanned_bytes` is what torch still
    allocates in the replay of each tape; `notes` are what the target tells; `parts_s` are seconds by part of tracing.
    """

    plan: Plan
    recorded: tuple[Tape, ...]
    recorded_ops: int
    unplanned_bytes: tuple[int, ...]
    notes: tuple[str, ...] = ()
    parts_s: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is worth a look, in lower case."""
        return self.notes + tuple(
            f"output `{name}` had the same bits for all inputs that were tried: is the model initialised?"
            for name in self.plan.fidelity.constant_outputs
        )


def compile_spec(  # noqa: PLR0913 - all but the first have names and defaults
    spec: Spec,
    *,
    target: Target = "cpu",
    switches: frozenset[str] = ALL,
    embed_weights: bool = False,
    cache: Path | None = None,
    node_limit: int = DEFAULT_NODE_LIMIT,
    walk_events: int = WALK_EVENTS,
    keep_recorded: bool = False,
    progress: Progress = silent,
) -> CompiledPlan:
    """Trace the spec's model at every key, compare each tape with the stock model, and return the plan.

    `switches` are the passes that run; `node_limit` bounds the search; captures for CUDA are kept in the folder
    `cache`, or nowhere; recordings stay in memory if `keep_recorded`. Raises TraceError, TimelineError or TargetError.
    Random generators and numeric switches are put back.
    """
    build(spec.program, where=spec.where)  # what cannot be proven is refused before any model is built
    require_target(target)
    backend = _backend(target, cache)
    device = torch.device("cpu") if backend is None else backend.device
    devices = [] if backend is None else [device]
    with torch.random.fork_rng(devices=devices), applied(spec.numerics):
        release = read_release(spec)
        traced, stock, fresh = (_build(spec, release, device, position, progress) for position in range(3))
        check_same_weights(traced.weights, stock.weights, "two builds of the model are not equal", _SEED_HINT)
        # A dictionary of its own: large constants join the weights of the plan, not those of the model.
        weights = replace(traced.weights, tensors=dict(traced.weights.tensors))
        kept = _Kept(weights, switches, device, traced.jobs, backend, keep_recorded)
        with settled():
            found = _explore(spec, traced, stock, kept, node_limit, progress)
            walked = _walk(kept, found, traced.weights, fresh, walk_events, progress)
        plan = assemble(
            spec,
            Traced(
                leaves=traced.jobs.leaves,
                exploration=found,
                tapes=tuple(kept.pool.tapes),
                lowered=kept.lowered,
                constants=kept.constants,
                weights=weights,
                published=digests({name: release[name] for name in release.keys() & weights.tensors.keys()}),
                fidelity=kept.fidelity(walked),
                numerics=tuple(sorted({**kept.numerics, **dict(shown(spec.numerics))}.items())),
                environment=environment() if backend is None else backend.environment(),
            ),
            target,
            embed_weights=embed_weights,
        )
        if backend is None:
            raise_all(op_faults(plan))  # what a load would say
        else:
            plan = backend.finish(plan)
    unplanned = tuple(item.unplanned_bytes for item in kept.lowered)
    notes = () if backend is None else tuple(backend.warnings)
    return CompiledPlan(plan, tuple(kept.recorded), kept.recorded_ops, unplanned, notes, kept.parts.seconds)


@dataclass(frozen=True, slots=True)
class _Built:
    """A model with its jobs and its tensors."""

    jobs: Jobs
    weights: Weights


def require_target(target: Target) -> None:
    """Raise DeviceError CAD8002 or CAD8005 where nothing can be compiled for a target on this machine."""
    if target == "cuda":
        system_driver()


def _backend(target: Target, cache: Path | None) -> Backend | None:
    """Return what captures tapes for the target; None for the CPU, whose player runs tapes themselves."""
    if target == "cpu":
        return None
    from cadencec.targets.cuda.target import start

    return start(cache)


def _build(
    spec: Spec, release: Mapping[str, Tensor], device: torch.device, position: int, progress: Progress
) -> _Built:
    progress("build", position, 3)
    model = load_model(spec.model.entry, dict(spec.model.options), Path(spec.path).parent, device)
    weights = collect_weights(model.adapter)
    if spec.model.weights:
        load_published(release, weights, spec.where("model.weights"))
    return _Built(Jobs(spec.program, declared_leaves(spec.program, spec.where), model), weights)


def _explore(spec: Spec, traced: _Built, stock: _Built, kept: "_Kept", limit: int, progress: Progress) -> Exploration:
    progress("trace", 0, 1)
    leaves = traced.jobs.leaves
    runner = Runner(spec.program, leaves, traced.jobs, stock.jobs, traced.weights, kept.device, kept.parts)
    found = explore(
        spec.program, runner, kept.keep, limit=limit, progress=lambda done, known: progress("trace", done, known)
    )
    scratch = traced.weights.history.overwritten
    check_same_weights(traced.weights, stock.weights, "a stage changed the model itself", _CLONE_HINT, scratch)
    return found


def _walk(kept: "_Kept", found: Exploration, own: Weights, fresh: _Built, events: int, progress: Progress) -> Walked:
    progress("walk", 0, events)
    tapes = Tapes(found, tuple(kept.pool.tapes), kept.constants.__getitem__, kept.weights)
    scratch = kept.weights.history.overwritten
    try:
        walked = walk(tapes, fresh.jobs, kept.device, events=events, seed=WALK_SEED, note=kept.outputs.note)
    finally:
        # A model that a session changes explains any difference, and by name.
        check_same_weights(own, fresh.weights, "a session changed the model itself", _CLONE_HINT, scratch)
    progress("walk", events, events)
    return walked


@dataclass(slots=True)
class _Kept:
    """Finishes what is recorded: passes, comparison, scratch."""

    weights: Weights
    switches: frozenset[str]
    device: torch.device
    jobs: Jobs
    backend: Backend | None
    keep_recorded: bool
    parts: Parts = field(default_factory=Parts)
    pool: TapePool = field(default_factory=TapePool)
    holdable: Holdable = field(default_factory=Holdable)
    lowered: list[Lowered] = field(default_factory=list)
    recorded: list[Tape] = field(default_factory=list)
    recorded_ops: int = 0
    constants: dict[str, Tensor] = field(default_factory=dict)
    numerics: dict[str, str] = field(default_factory=dict)
    outputs: Outputs = field(default_factory=Outputs)
    fewest: int = TRACKS

    def keep(self, found: Found) -> int:
        """Return the index of the finished tape of a recording, compared with the stock model's runs. Where the ops are
        new, so is the stock model with itself."""
        recording, executions = found.recorded.recording, found.recorded.executions
        if found.recorded.is_new:
            check_deterministic(recording, self.weights, executions[0], self.device)
        with self.parts("passes"):
            program = optimise(recording, self.weights, self.switches, device=self.device)
            program = externalise(program, self.weights.tensors, self.device)
        constant = program.constants.__getitem__
        try:
            with self.parts("compare"):
                check_tape(program.tape, constant, self.weights, recording, executions, self.device)
        except TraceError:
            # A model that differs from itself only now and then looks like a tape that differs from it.
            check_deterministic(recording, self.weights, executions[-1], self.device, tries=TRIES)
            raise
        self.fewest = min(self.fewest, len(executions))
        names = [binding.name for binding in program.tape.outputs]
        for execution in executions:
            self.outputs.note(found.key.stage, dict(zip(names, execution.outputs, strict=True)))
        self.numerics.update(recording.numerics)
        self.constants.update(program.constants)
        with self.parts("pack"):
            index = self.pool.add(program.tape)
            if index == len(self.lowered):
                self._add(self.pool.tapes[index], recording.tape)
        if self.backend is not None:
            with self.parts("capture"):
                self.backend.add(self._finding(found, program))
        return index

    def _add(self, tape: Tape, recorded: Tape) -> None:
        """Take in a tape that is new, and the first recording behind it."""
        self.holdable.require(tape)
        self.lowered.append(lower(tape) if self.backend is None else NOT_LOWERED)
        self.recorded_ops += len(recorded.ops)
        if self.keep_recorded:
            self.recorded.append(recorded)

    def _finding(self, found: Found, program: Program) -> Finding:
        recorded = found.recorded
        return Finding(
            tape=program.tape,
            constants=program.constants,
            weights=self.weights.tensors,
            inputs=recorded.inputs,
            leaves=recorded.leaves,
            before=found.before,
            after=found.after,
            outputs=found.outputs,
            owners=self.jobs.leaves.paths,
            numerics=dict(recorded.recording.numerics),
            rows=self.jobs.rows(found.key),
        )

    def fidelity(self, walked: Walked) -> Fidelity:
        """Return what was compared."""
        return Fidelity(
            tapes=len(self.pool.tapes),
            values_per_tape=self.fewest,
            walk_events=walked.events,
            outputs_compared=self.outputs.compared,
            constant_outputs=self.outputs.constant(),
        )
