"""A tape as text for people: what `compile --dump-tape` prints.

    tape step: 2 ops
      input     %0  x        float32 [4]
      leaf      %1  state    float32 [4]
      %2 float32 [4] = aten::add.Tensor(%0, %1)                                   model.py:12
      %3 float32 [4] = aten::cat((%1[3]@1, %0[1]))                                model.py:13
      output    y        = %2
      new leaf  state    = %3

`%n` is storage n; a view is shown by its sizes, its strides where they are not dense, and `@` its offset, wherever it
is not the whole storage as it was first written.
"""

from collections.abc import Iterator

from cadence_runtime.format.tape import Binding, Literal, Op, Operand, Storage, Tape, View
from cadencec.trace.operands import float_value

SOURCE_COLUMN = 88


def format_tape(tape: Tape, note: str = "") -> str:
    """Return the whole listing, one op a line; the note stands in its head."""
    return "\n".join(_lines(tape, note)) + "\n"


def _lines(tape: Tape, note: str) -> Iterator[str]:
    draws = sum(op.draws for op in tape.ops)
    told = f"{len(tape.ops)} ops" + (f", {draws} draw" if draws else "")
    yield f"tape {tape.stage}{note}: {told}"
    for kind, bindings in (("input", tape.inputs), ("leaf", tape.state_in)):
        yield from (_entry(kind, binding) for binding in bindings)
    for index, storage in enumerate(tape.storages):
        if storage.kind in ("weight", "constant"):
            yield f"  {storage.kind:<9} %{index:<4} {_storage(storage)}"
    for op in tape.ops:
        line = f"  {_op(op, tape)}"
        yield f"{line:<{SOURCE_COLUMN}} {op.source}" if op.source else line
    for kind, bindings in (("output", tape.outputs), ("new leaf", tape.state_out)):
        yield from (f"  {kind:<9} {binding.name:<12} = {_operand(binding.value, tape)}" for binding in bindings)


def _entry(kind: str, binding: Binding) -> str:
    if isinstance(binding.value, Literal):
        return f"  {kind:<9}       {binding.name:<12} = {_literal(binding.value)}"
    view = binding.value
    return f"  {kind:<9} %{view.storage:<4} {binding.name:<12} {_form(view)}"


def _storage(storage: Storage) -> str:
    name = storage.name[:12] if storage.kind == "constant" else storage.name
    return f"{name} ({storage.size_bytes} bytes{', on the host' if storage.host else ''})"


def _op(op: Op, tape: Tape) -> str:
    outs = ", ".join(_result(out) for out in op.outs)
    args = [_operand(arg, tape) for arg in op.args]
    args += [f"{name}={_operand(value, tape)}" for name, value in op.kwargs]
    call = f"{op.name}({', '.join(args)})"
    return f"{outs} = {call}" if outs else call


def _result(operand: Operand) -> str:
    if isinstance(operand, View):
        return f"%{operand.storage} {_form(operand)}"
    if isinstance(operand, tuple):
        return f"({', '.join(map(_result, operand))})"
    return _literal(operand)


def _operand(operand: Operand, tape: Tape) -> str:
    if isinstance(operand, tuple):
        return f"({', '.join(_operand(item, tape) for item in operand)})"
    if isinstance(operand, Literal):
        return _literal(operand)
    whole = operand.span() == (0, tape.storages[operand.storage].size_bytes) and is_dense(operand)
    shape = f"[{', '.join(map(str, operand.sizes))}]"
    return f"%{operand.storage}" + (shape if whole else shape + _place(operand))


def _form(view: View) -> str:
    return f"{view.dtype} [{', '.join(map(str, view.sizes))}]{_place(view)}"


def _place(view: View) -> str:
    strides = "" if is_dense(view) else f"/{','.join(map(str, view.strides))}"
    offset = f"@{view.offset}" if view.offset else ""
    return strides + offset + (" conj" if view.conj else "") + (" neg" if view.neg else "")


def is_dense(view: View) -> bool:
    """Return whether the view's elements lie one after the other in order of its dims."""
    expected = 1
    for size, stride in zip(reversed(view.sizes), reversed(view.strides), strict=True):
        if size != 1 and stride != expected:
            return 0 in view.sizes
        expected *= size
    return True


def _literal(literal: Literal) -> str:
    match literal.kind:
        case "none":
            return "none"
        case "float":
            return repr(float_value(literal.text))
        case "complex":
            return str(complex(*map(float_value, literal.text.split(","))))
        case "str":
            return repr(literal.text)
        case "generator":
            return "default generator"
    return literal.text
