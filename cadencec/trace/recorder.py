"""From a real execution of a stage to a `Tape`.

The stage runs once, for real, under a dispatch mode below autograd. Every op is written down with its operands as
storages and views; which storages an op reads and writes follows from its schema, what aliases what from the storages
themselves. What a recording guarantees: run again op by op on other bytes of the same forms, the tape does what the
model does, or the recording was refused by name. `docs/tracing.md` says what that cannot see.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cadence_runtime.errors import CadenceError, raise_all
from cadence_runtime.format.tape import Binding, Op, Operand, Tape, View
from cadencec.trace import hazards, undeclared
from cadencec.trace.attributes import walk_around
from cadencec.trace.bits import copied, same_bits
from cadencec.trace.effects import constant_ops
from cadencec.trace.flags import flags, numerics
from cadencec.trace.history import History, Leftover
from cadencec.trace.host import watched
from cadencec.trace.mode import Recorder
from cadencec.trace.neutral import neutral, no_collection
from cadencec.trace.operands import map_views, on_storage
from cadencec.trace.storages import StorageTable
from cadencec.trace.template import Template
from cadencec.trace.weights import Weights, collect_weights

__all__ = ["Leaf", "Recording", "Weights", "collect_weights", "record"]

Leaf = Tensor | bool | int | float | str | None
Call = Callable[[], tuple[Sequence[Leaf], Mapping[str, Leaf]]]


@dataclass(frozen=True, slots=True)
class Recording:
    """A tape as recorded, before any pass, with what really came out of the run.

    `state` are the new leaves by path. `constants` are the bytes of the tape's constants by digest (one-dimensional
    uint8 tensors on the CPU), `derived` those of them that come from weights. `numerics` are the precision flags and
    autocast under which the stage ran, as sorted pairs. `template` is for
    the next recording of the stage. `departed` says that there are ops which the template that was given did not have,
    so that their source lines are missing.
    """

    tape: Tape
    outputs: tuple[Leaf, ...]
    state: Mapping[str, Leaf]
    constants: Mapping[str, Tensor]
    derived: frozenset[str]
    numerics: tuple[tuple[str, str], ...]
    template: Template = ()
    departed: bool = False


@dataclass(frozen=True, slots=True)
class _Run:
    """What to record."""

    stage: str
    call: Call
    inputs: Mapping[str, Leaf]
    leaves: Mapping[str, Leaf]
    weights: Weights
    names: Sequence[str]
    device: torch.device
    template: Template | None


def record(
    stage: str,
    call: Call,
    inputs: Mapping[str, Leaf],
    leaves: Mapping[str, Leaf],
    weights: Weights,
    *,
    names: Sequence[str],
    device: torch.device | None = None,
    template: Template | None = None,
) -> Recording:
    """Run `call` and return its tape. With a `template` of the same stage that takes less time, and source lines come
    from there.

    `call` runs the model on exactly these tensors and returns its outputs, one for each of `names`, and the new leaves
    by path. It is called a second time, on the same bytes, when the first changed attributes of the model to
    constants: the second run must do the same and change nothing. Raises TraceError (CAD30xx to CAD32xx) for
    everything that a tape cannot replay.
    """
    run = _Run(stage, call, inputs, leaves, weights, names, device or torch.device("cpu"), template)
    first, found, mode = _record(run)
    if not found:
        return first
    outcome = [copied(value) if isinstance(value, Tensor) else value for value in _values(first)]
    _restore(mode)
    second, again, _ = _record(run)
    differs = _difference(first, outcome, second)
    raise_all(undeclared.unsettled(found, again, differs))
    return second


def _record(run: _Run) -> tuple[Recording, list[undeclared.Change], Recorder]:
    """Record one run; return the attributes that it changed to constants as well."""
    torch.clear_autocast_cache()
    mode = Recorder(run.device, run.weights, run.template)
    mode.lines.outermost = _execute.__code__
    mode.table.bind("leaf", _tensors(run.leaves))
    mode.table.bind("input", _tensors(run.inputs))
    inputs = tuple(mode.binding(name, value) for name, value in run.inputs.items())
    state_in = tuple(mode.binding(path, value) for path, value in run.leaves.items())
    history = run.weights.history
    before = history.snapshot or walk_around(run.weights.model)
    history.snapshot = None

    outputs, state = _execute(mode, run)

    if len(outputs) != len(run.names):
        raise hazards.wrong_outputs(run.stage, run.names, len(outputs))
    out = tuple(mode.binding(name, value) for name, value in zip(run.names, outputs, strict=True))
    state_out = tuple(mode.binding(path, value) for path, value in state.items())
    after = before if before.glance.is_same() else walk_around(run.weights.model)
    found = undeclared.changes(before, after) if after is not before else []
    constant = _check_undeclared(mode, run, out, state_out, found)
    _check_other_stages(mode, run.stage, history)
    _remember(mode, run)
    history.snapshot = after
    tape = Tape(
        stage=run.stage,
        storages=mode.table.finish(),
        inputs=inputs,
        state_in=state_in,
        ops=tuple(mode.ops),
        outputs=out,
        state_out=state_out,
        draws=any(op.draws for op in mode.ops),
    )
    recording = Recording(
        tape=tape,
        outputs=tuple(outputs),
        state=dict(state),
        constants=mode.table.constants,
        derived=frozenset(mode.table.derived),
        numerics=numerics(mode.flags),
        template=tuple(mode.places),
        departed=mode.departed,
    )
    return recording, constant, mode


def _execute(mode: Recorder, run: _Run) -> tuple[Sequence[Leaf], Mapping[str, Leaf]]:
    """Run the model under the mode. An error of ours wins over whatever the model made of it."""
    try:
        with neutral(), no_collection(), watched(mode), mode:
            result = run.call()
    except CadenceError as error:
        raise mode.error or error from None
    except Exception as error:
        if mode.error is not None:
            raise mode.error from None
        if mode.lines.is_ours(error):
            raise
        raise hazards.raised(run.stage, error, mode.lines.of_error(error)) from error
    if mode.error is not None:
        raise mode.error
    mode.generators.check_unmoved()
    mode.generators.check_foreign()
    if flags() != mode.flags:
        raise hazards.flags_changed(mode.flags, flags(), None)
    return result


def _check_undeclared(
    mode: Recorder,
    run: _Run,
    outputs: tuple[Binding, ...],
    state: tuple[Binding, ...],
    found: list[undeclared.Change],
) -> list[undeclared.Change]:
    """Raise for undeclared state of every kind; return the attributes that changed to constants. Buffers that the
    stage overwrites before it reads them become scratch."""
    table = mode.table
    views = (binding.value for binding in state if isinstance(binding.value, View))
    declared = {view.storage for view in views if not table.is_constant(view.storage)}
    errors, scratch = undeclared.overwritten(mode.ops, (*outputs, *state), table)
    more, constant = undeclared.rebound(found, table, declared, mode.ops)
    raise_all([*errors, *more])
    for index in scratch:
        run.weights.history.overwritten.setdefault(table.lasting[index], run.stage)
        table.kinds[index], table.names[index] = "scratch", ""
        del table.lasting[index]
    return constant


def _check_other_stages(mode: Recorder, stage: str, history: History) -> None:
    """Raise TraceError CAD3206 when one stage reads a buffer that another one, or another key, uses as scratch."""
    used = {index for op in mode.ops for index in op.reads}
    for index in sorted(used & mode.table.lasting.keys()):
        history.read.setdefault(mode.table.lasting[index], stage)
    errors = [
        hazards.shared_scratch(name, history.overwritten[name], history.read[name])
        for name in sorted(history.overwritten.keys() & history.read.keys())
    ]
    raise_all(errors)


def _remember(mode: Recorder, run: _Run) -> None:
    """Tell later recordings what this one leaves behind."""
    made_at = {index: op for op in reversed(mode.ops) for index in op.writes}
    run.weights.history.remember(_leftovers(mode.table, run.stage, made_at))


def _leftovers(table: StorageTable, stage: str, made_at: Mapping[int, Op]) -> Iterator[Leftover]:
    for index, reference in table.references.items():
        op = made_at.get(index)
        what = f"`{table.names[index]}`" if op is None or table.names[index] else f"`{op.name}`"
        origin = f"{what} of stage `{stage}`" + (f", {op.source}" if op is not None and op.source else "")
        yield Leftover(reference, table.is_constant(index), bool(table.depends[index] & table.WEIGHT), origin)


def _restore(mode: Recorder) -> None:
    """Give inputs, leaves and generators back what they held before the run."""
    for index, data in mode.saved.items():
        bound = mode.table.bound[index]
        torch.empty(0, dtype=torch.uint8, device=bound.device).set_(bound.untyped_storage()).copy_(data)
    mode.generators.restore()


def _difference(first: Recording, outcome: list[Leaf], second: Recording) -> str | None:
    """Return how the second of two runs on the same bytes differs from the first, or None."""
    ops = list(zip(_changing_ops(first.tape), _changing_ops(second.tape), strict=False))
    for before, after in ops:
        if before != after:
            return f"`{before[0]}` became `{after[0]}`" if before[0] != after[0] else f"`{before[0]}` differs"
    if len(_changing_ops(first.tape)) != len(_changing_ops(second.tape)):
        return "another number of ops"
    same = all(map(same_bits, outcome, _values(second))) and len(outcome) == len(_values(second))
    return None if same else "other values"


def _changing_ops(tape: Tape) -> list[tuple[object, ...]]:
    """Return the ops that depend on inputs, leaves or draws, without the identity of their storages."""

    def anonymous(operand: Operand) -> Operand:
        return map_views(operand, lambda view: on_storage(view, 0))

    ops = (op for op, constant in zip(tape.ops, constant_ops(tape), strict=True) if not constant and op.writes)
    return [(op.name, *map(anonymous, op.args), *((key, anonymous(value)) for key, value in op.kwargs)) for op in ops]


def _values(recording: Recording) -> list[Leaf]:
    return [*recording.outputs, *recording.state.values()]


def _tensors(values: Mapping[str, Leaf]) -> dict[str, Tensor]:
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
