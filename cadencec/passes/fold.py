"""Folding: what depends on no input, no leaf and no random draw runs once, now, and its result becomes a constant.

The ops run in order, so a constant that changes along the way is one constant for each of its versions:

    c = zeros(2); y = x + c; c += 1; z = x + c      ->      y = x + [0, 0]; z = x + [1, 1]

A storage that is constant at first and gets data later keeps all ops that write it; so does one that is only filled
and larger than `FILL_BYTES`, since a fill is cheaper to run than to keep in a plan.
"""

from dataclasses import dataclass, field, replace

from torch import Tensor

from cadence_runtime.format.tape import Binding, Op, Storage, Tape, View
from cadencec.passes.program import Context, Program, map_binding
from cadencec.trace.effects import constant_ops
from cadencec.trace.interpret import Memory, prepare
from cadencec.trace.operands import map_views, on_storage
from cadencec.trace.storages import digest, storage_bytes

FILL_BYTES = 4096


def run(program: Program, context: Context) -> Program:
    """Return the program with every constant op replaced by its result."""
    tape = program.tape
    constant = constant_ops(tape)
    if not any(is_constant and op.writes for op, is_constant in zip(tape.ops, constant, strict=True)):
        return program
    kept = kept_storages(tape, constant)
    folder = _Folder(program, context, kept)
    ops = [folder.op(op, is_constant) for op, is_constant in zip(tape.ops, constant, strict=True)]
    outputs = tuple(folder.binding(binding) for binding in tape.outputs)
    state_out = tuple(folder.binding(binding) for binding in tape.state_out)
    folded = replace(
        tape,
        storages=(*tape.storages, *folder.added),
        ops=tuple(op for op in ops if op is not None),
        outputs=outputs,
        state_out=state_out,
    )
    return Program(folded, {**program.constants, **folder.constants}, program.derived | folder.derived)


def kept_storages(tape: Tape, constant: list[bool]) -> set[int]:
    """Return the storages whose writers all stay: those that ever hold changing data, large fills, and whatever else
    an op writes that writes one of these."""
    kept = {index for index, storage in enumerate(tape.storages) if storage.kind in ("input", "leaf")}
    kept |= _large_fills(tape)
    for op, is_constant in zip(tape.ops, constant, strict=True):
        if not is_constant:
            kept.update(op.writes)
    grown = -1
    while grown != len(kept):
        grown = len(kept)
        for op in tape.ops:
            if not kept.isdisjoint(op.writes):
                kept.update(op.writes)
    return kept


def _large_fills(tape: Tape) -> set[int]:
    fills = {"aten::zero_", "aten::fill_.Scalar"}
    large = {
        i
        for i, storage in enumerate(tape.storages)
        if storage.kind == "scratch" and storage.size_bytes > FILL_BYTES and not storage.host
    }
    written: set[int] = set()
    for op in tape.ops:
        written.update(op.writes)
        if op.name not in fills:
            large.difference_update(op.writes)
    return large & written


@dataclass(slots=True)
class _Folder:
    """Runs constant ops and hands out their results as constants."""

    program: Program
    context: Context
    kept: set[int]
    added: list[Storage] = field(default_factory=list)
    constants: dict[str, Tensor] = field(default_factory=dict)
    derived: frozenset[str] = frozenset()
    _memory: Memory = field(init=False)
    _current: dict[int, int] = field(default_factory=dict)
    _index: dict[tuple[str, bool], int] = field(default_factory=dict)
    _from_weights: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        tape = replace(self.program.tape, inputs=(), state_in=())
        device, weight = self.context.device, self.context.weight
        self._memory = prepare(tape, {}, {}, weight, self.program.constants.__getitem__, device)
        storages = enumerate(tape.storages)
        self._from_weights |= {index for index, storage in storages if storage.kind == "weight"}

    def op(self, op: Op, is_constant: bool) -> Op | None:
        """Run a constant op; return what is left of an op in the folded tape."""
        stays = not is_constant or not self.kept.isdisjoint(op.writes)
        folded = self._rewritten(op) if stays else None
        if is_constant:
            self._memory.run(op)
            for index in op.writes:
                self._current.pop(index, None)
            if not self._from_weights.isdisjoint(op.reads):
                self._from_weights.update(op.writes)
        return folded

    def binding(self, binding: Binding) -> Binding:
        """Return a binding with a constant where it names a folded storage."""
        return map_binding(binding, self._folded)

    def _rewritten(self, op: Op) -> Op:
        touched = (*op.reads, *op.writes)
        if touched and all(self._constant(index) == index for index in touched):
            return op
        reads = {self._constant(index) for index in op.reads}
        return replace(
            op,
            args=tuple(map_views(arg, self._folded) for arg in op.args),
            kwargs=tuple((name, map_views(value, self._folded)) for name, value in op.kwargs),
            outs=tuple(map_views(out, self._folded) for out in op.outs),
            reads=tuple(sorted(reads)),
        )

    def _folded(self, view: View) -> View:
        return on_storage(view, self._constant(view.storage))

    def _constant(self, index: int) -> int:
        """Return the storage that holds the bytes which `index` has now, in the folded tape."""
        storage = self.program.tape.storages[index]
        if index in self.kept or storage.kind in ("weight", "constant"):
            return index
        if index not in self._current:
            self._current[index] = self._add(index, storage)
        return self._current[index]

    def _add(self, index: int, storage: Storage) -> int:
        data = storage_bytes(self._memory.base(index))
        name = digest(data)
        self.constants[name] = data
        if index in self._from_weights:
            self.derived |= {name}
        key = (name, storage.host)
        if key not in self._index:
            self._index[key] = len(self.program.tape.storages) + len(self.added)
            self.added.append(Storage("constant", name, data.numel(), storage.host))
        return self._index[key]
