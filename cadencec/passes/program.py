"""What passes work on: a tape with its constants, and small rewrites that several passes share."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cadence_runtime.format.tape import Binding, Op, Tape, View
from cadencec.trace.operands import map_views, on_storage, views_of


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

    renumbered = rename_storages(tape, number)
    storages = tuple(tape.storages[old] for old in number)
    names = {storage.name for storage in storages if storage.kind == "constant"}
    constants = {name: data for name, data in program.constants.items() if name in names}
    return Program(replace(renumbered, storages=storages), constants, program.derived & names)


def rename_storages(tape: Tape, number: Mapping[int, int]) -> Tape:
    """Return the tape with storages named by other numbers; those that are not in `number` keep theirs."""
    return map_tape(tape, lambda old: on_storage(old, number.get(old.storage, old.storage)), number)


def map_tape(tape: Tape, view: Callable[[View], View], number: Mapping[int, int]) -> Tape:
    """Return the tape with its views changed, and the storages that ops read and write named by other numbers."""

    def indices(old: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted({number.get(index, index) for index in old}))

    def op(old: Op) -> Op:
        args = tuple([map_views(arg, view) for arg in old.args])
        kwargs = tuple([(name, map_views(value, view)) for name, value in old.kwargs])
        outs = tuple([map_views(out, view) for out in old.outs])
        return Op(old.name, args, kwargs, outs, indices(old.reads), indices(old.writes), old.source, old.draws)

    def bindings(old: tuple[Binding, ...]) -> tuple[Binding, ...]:
        return tuple(map_binding(binding, view) for binding in old)

    return replace(
        tape,
        ops=tuple(map(op, tape.ops)),
        inputs=bindings(tape.inputs),
        state_in=bindings(tape.state_in),
        outputs=bindings(tape.outputs),
        state_out=bindings(tape.state_out),
    )


def _all_views(tape: Tape) -> Iterator[View]:
    yield from views_of(binding.value for binding in (*tape.inputs, *tape.state_in))
    for op in tape.ops:
        yield from views_of((*op.args, *(value for _, value in op.kwargs), *op.outs))
    yield from views_of(binding.value for binding in (*tape.outputs, *tape.state_out))
