"""What an op does besides returning: which operands it writes, whether it reads data at all, whether it draws.

Facts come from the op's schema and tags. The few lists here hold what schemas do not say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch

from cadence_runtime.format.tape import Op, Operand, Tape, View
from cadencec.trace.operands import resolve, views_of


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


OVERWRITES = _names("copy_ fill_ zero_ normal_ uniform_ random_ exponential_ geometric_ cauchy_ log_normal_ bernoulli_")
"""In-place ops that write every element of `self` and read none of it."""

RESERVES = _names("empty empty_like empty_strided empty_permuted new_empty new_empty_strided")
"""Ops that reserve memory and leave its bytes undefined."""

LIKE = _names("zeros_like ones_like full_like rand_like randn_like randint_like new_zeros new_ones new_full")
"""Ops that take a tensor for its shape and dtype alone; its bytes do not matter."""

HOST_READS = _names("_local_scalar_dense item is_nonzero equal allclose _linalg_check_errors")
"""Ops that hand data of tensors to the host."""

NORMALISES = _names(
    "native_batch_norm _native_batch_norm_legit cudnn_batch_norm miopen_batch_norm _batch_norm_with_update"
)
"""Ops that may update running statistics."""

ASSERTIONS = _names("_assert_async _assert_scalar _functional_assert_async")
"""Ops that only raise: kept, since stock would raise as well."""

NO_OPS = _names("_assert_tensor_metadata _record_function_enter _record_function_enter_new _record_function_exit")
"""Ops that leave no trace in data."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Facts of one op overload. `mutated` lists the arguments it writes: (position, keyword, whole), where `whole`
    says that it writes all of the argument and reads none of it."""

    name: str
    mutated: tuple[tuple[int, str, bool], ...]
    moves_view: bool
    reserves: bool
    shape_only: bool
    host_read: bool
    asserts: bool
    ignored: bool
    seeded: bool
    pointwise: bool
    dynamic_shape: bool
    normalises: bool
    composite: bool


def base_name(name: str) -> str:
    """Return the op without namespace and overload: `aten::add.Tensor` -> `add`."""
    return name.partition("::")[2].partition(".")[0]


@cache
def effects_of(name: str) -> Effects:
    """Return the facts of an op by its name in a tape."""
    op, base = resolve(name), base_name(name)
    mutated = []
    for position, argument in enumerate(op._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            whole = argument.kwarg_only or (base in OVERWRITES and position == 0)
            mutated.append((position, argument.name, whole))
    tags = set(op.tags)
    aten = name.startswith("aten::")
    return Effects(
        name=name,
        mutated=tuple(mutated),
        moves_view=torch.Tag.inplace_view in tags,
        reserves=aten and base in RESERVES,
        shape_only=aten and base in LIKE | RESERVES,
        host_read=torch.Tag.data_dependent_output in tags or (aten and base in HOST_READS),
        asserts=aten and base in ASSERTIONS,
        ignored=base in NO_OPS,
        pointwise=torch.Tag.pointwise in tags,
        seeded=torch.Tag.nondeterministic_seeded in tags,
        normalises=base in NORMALISES,
        dynamic_shape=torch.Tag.dynamic_output_shape in tags,
        composite=op._can_decompose() and not op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CPU),
    )


@dataclass(frozen=True, slots=True)
class Accesses:
    """The views that an op reads, those that it changes in part (and so reads as well), and those that it overwrites
    whole. Fresh outputs are in none of them."""

    read: tuple[View, ...]
    changed: tuple[View, ...]
    overwritten: tuple[View, ...]


NO_ACCESSES = Accesses((), (), ())


def accesses(effects: Effects, args: Sequence[Operand], kwargs: Mapping[str, Operand]) -> Accesses:
    """Return what an op does to its operands."""
    operands: dict[int | str, Operand] = dict(enumerate(args))
    operands.update(kwargs)
    changed: list[View] = []
    overwritten: list[View] = []
    for position, name, whole in effects.mutated:
        key = position if position < len(args) else name
        if key in operands:
            target = operands.pop(key) if whole else operands[key]
            (overwritten if whole else changed).extend(views_of((target,)))
    return Accesses(tuple(views_of(operands.values())), tuple(changed), tuple(overwritten))


def accesses_of(op: Op) -> Accesses:
    """Return what an op of a tape does to its operands; nothing for one that only makes a view."""
    if not op.reads and not op.writes:
        return NO_ACCESSES
    return accesses(effects_of(op.name), op.args, dict(op.kwargs))


def constant_ops(tape: Tape) -> list[bool]:
    """Return for each op whether all it reads is constant at that moment: no input, no leaf, no random draw."""
    changing = {index for index, storage in enumerate(tape.storages) if storage.kind in ("input", "leaf")}
    constant = []
    for op in tape.ops:
        reads = () if effects_of(op.name).shape_only else op.reads
        is_constant = not op.draws and changing.isdisjoint(reads)
        if not is_constant:
            changing.update(op.writes)
        constant.append(is_constant)
    return constant
