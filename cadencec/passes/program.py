"""What passes work on: a tape with its constants, and small rewrites that several passes share."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cadence_runtime.format.tape import Binding, Op, Operand, Tape, View
from cadencec.trace.operands import map_views, views_of


@dataclass(frozen=True, slots=True)
class Program:
    """A tape and the bytes of its constants by digest (one-dimensional uint8 CPU tensors). `derived` are the digests
    of constants that were computed from weights."""

    tape: Tape
    constants: Mapping[str, Tensor]
    derived: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Context:
    """Where a pass may run ops: the traced device, and the weights by name."""

    device: torch.device
    weight: Callable[[str], Tensor]


def map_binding(binding: Binding, change: Callable[[View], View]) -> Binding:
    """Return a binding with its view, if it has one, changed."""
    return replace(binding, value=change(binding.value)) if isinstance(binding.value, View) else binding


def compact(program: Program) -> Program:
    """Return the program without storages and constants that nothing names, the rest numbered as they are first met:
    tapes that do the same are equal."""
    tape = program.tape
    used = dict.fromkeys(view.storage for view in _all_views(tape))
    number = {old: new for new, old in enumerate(used)}

    def renumber(view: View) -> View:
        return replace(view, storage=number[view.storage])

    def renumbered(op: Op) -> Op:
        return replace(
            op,
            args=tuple(map_views(arg, renumber) for arg in op.args),
            kwargs=tuple((name, map_views(value, renumber)) for name, value in op.kwargs),
            outs=tuple(map_views(out, renumber) for out in op.outs),
            reads=tuple(sorted(number[index] for index in op.reads)),
            writes=tuple(sorted(number[index] for index in op.writes)),
        )

    def rebound(bindings: tuple[Binding, ...]) -> tuple[Binding, ...]:
        return tuple(map_binding(binding, renumber) for binding in bindings)

    storages = tuple(tape.storages[old] for old in number)
    names = {storage.name for storage in storages if storage.kind == "constant"}
    compacted = replace(
        tape,
        storages=storages,
        inputs=rebound(tape.inputs),
        state_in=rebound(tape.state_in),
        ops=tuple(map(renumbered, tape.ops)),
        outputs=rebound(tape.outputs),
        state_out=rebound(tape.state_out),
    )
    constants = {name: data for name, data in program.constants.items() if name in names}
    return Program(compacted, constants, program.derived & names)


def _all_views(tape: Tape) -> Iterator[View]:
    yield from views_of(binding.value for binding in (*tape.inputs, *tape.state_in))
    for op in tape.ops:
        yield from views_of((*op.args, *(value for _, value in op.kwargs), *op.outs))
    yield from views_of(binding.value for binding in (*tape.outputs, *tape.state_out))
