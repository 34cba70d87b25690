"""The rules of one tape: what a player may take for granted about its ops, views and names.

They say nothing of whether the tape computes the right thing, which is what `verify` compares; they say that it reads
and writes only inside its own storages, and declares what it touches.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from cadence_runtime.errors import PlanError
from cadence_runtime.format.strict_json import shown
from cadence_runtime.format.tape import ITEM_BYTES, Binding, Literal, Op, Operand, StorageKind, Tape, View

T = TypeVar("T")
MAX_RANK = 64
MAX_ELEMENTS = 2**63 - 1

OP_NAME = re.compile(r"[a-z_]+::[a-zA-Z0-9_]+(\.[a-zA-Z0-9_]+)?", re.ASCII)
KWARG_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
LITERALS: dict[str, re.Pattern[str]] = {
    "none": re.compile(""),
    "bool": re.compile("true|false"),
    "int": re.compile("0|-?[1-9][0-9]{0,18}"),
    "float": re.compile("[0-9a-f]{16}"),
    "complex": re.compile("[0-9a-f]{16},[0-9a-f]{16}"),
    "str": re.compile(".*", re.DOTALL),
    "dtype": re.compile("|".join(map(re.escape, ITEM_BYTES))),
    "device": re.compile("target|cpu"),
    "layout": re.compile("strided"),
    "memory_format": re.compile("contiguous_format|preserve_format|channels_last|channels_last_3d"),
    "generator": re.compile(""),
}
"""What the text of each kind of literal looks like."""


class Texts:
    """What was found out about texts: a word of a plan names one of many thousand letters, which is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool] = {}

    def fit(self, pattern: re.Pattern[str], text: str) -> bool:
        """Return whether all of a text matches."""
        key = (pattern.pattern, text)
        if key not in self._known:
            self._known[key] = pattern.fullmatch(text) is not None
        return self._known[key]

    def is_printable(self, text: str) -> bool:
        """Return whether a text can stand on a screen."""
        key = ("printable", text)
        if key not in self._known:
            self._known[key] = text.isprintable()
        return self._known[key]


class TapeChecker:
    """Checks tapes that share ops and texts: what holds for one by itself is looked at once."""

    def __init__(self) -> None:
        self._ends = OpEnds()
        self._right: set[int] = set()
        self._texts = Texts()

    def errors(self, number: int, tape: Tape) -> Iterator[PlanError]:
        """Yield what is wrong with a tape."""
        where = f"tape {number} (stage {shown(tape.stage)})"
        for position, op in enumerate(tape.ops):
            at = f"{where}, op {position}"
            if id(op) not in self._right:
                wrong = list(op_errors(op, at, self._texts))
                yield from wrong
                if wrong:
                    continue
                self._right.add(id(op))
            yield from _bad_storages(op, self._ends(op), tape, at)
        yield from _bad_names(tape, where, self._texts)
        yield from _bad_bindings(tape, where, self._texts)
        if tape.draws != any(op.draws for op in tape.ops) and tape.ops:
            yield _error("CAD5212", "a tape says wrongly whether it draws", "what its ops say", str(tape.draws), where)


def views_of(operands: Iterable[Operand]) -> Iterator[View]:
    """Yield every view among nested operands."""
    for operand in operands:
        if isinstance(operand, View):
            yield operand
        elif isinstance(operand, tuple):
            yield from views_of(operand)


def view_ends(operands: Iterable[Operand]) -> dict[int, int]:
    """Return how many bytes of each storage the views among some operands reach."""
    ends: dict[int, int] = {}
    for view in _each_once(views_of(operands)):
        ends[view.storage] = max(ends.get(view.storage, 0), view.span()[1])
    return ends


class OpEnds:
    """How many bytes of each storage the views of an op reach: worked out once for an op that many tapes share."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, int]] = {}

    def __call__(self, op: Op) -> dict[int, int]:
        """Return the ends of an op, by storage. Whoever asks keeps the op."""
        ends = self._known.get(id(op))
        if ends is None:
            ends = self._known[id(op)] = view_ends((*op.args, *(value for _, value in op.kwargs), *op.outs))
        return ends


def storage_ends(tape: Tape, op_ends: OpEnds) -> dict[int, int]:
    """Return how many bytes of each storage the views of a tape reach."""
    bindings = (*tape.inputs, *tape.state_in, *tape.outputs, *tape.state_out)
    ends = view_ends(binding.value for binding in bindings)
    for op in tape.ops:
        for index, end in op_ends(op).items():
            if end > ends.get(index, -1):
                ends[index] = end
    return ends


def _error(code: str, what: str, expected: str, got: str, at: str) -> PlanError:
    return PlanError(code, what, expected=expected, got=got, at=at)


def op_errors(op: Op, at: str, texts: Texts) -> Iterator[PlanError]:
    """Yield what is wrong with an op by itself."""
    if not texts.is_printable(op.source):
        yield _error("CAD5215", "a source line is not printable", "printable text", shown(op.source), at)
    if not texts.fit(OP_NAME, op.name):
        yield _error("CAD5206", "an op has no name of an op", "`namespace::name.overload`", shown(op.name), at)
    names = [name for name, _ in op.kwargs]
    if names != sorted(set(names)) or not all(texts.fit(KWARG_NAME, name) for name in names):
        yield _error("CAD5208", "the kwargs of an op are not sorted names", "each once", shown(", ".join(names)), at)
    for what, found in (("reads", op.reads), ("writes", op.writes)):
        if list(found) != sorted(set(found)):
            yield _error("CAD5210", f"the {what} of an op are not sorted", "each storage once", shown(found), at)
    operands = (*op.args, *(value for _, value in op.kwargs), *op.outs)
    for literal in _each_once(_literals(operands)):
        if not texts.fit(LITERALS[literal.kind], literal.text):
            yield _bad_literal(literal, at)
    for view in _each_once(views_of(operands)):
        yield from _bad_view(view, at)


def _each_once(found: Iterable[T]) -> Iterable[T]:
    """Return every object once: a few words can name one by the thousand."""
    return {id(each): each for each in found}.values()


def _literals(operands: Iterable[Operand]) -> Iterator[Literal]:
    for operand in operands:
        if isinstance(operand, Literal):
            yield operand
        elif isinstance(operand, tuple):
            yield from _literals(operand)


def _bad_literal(literal: Literal, at: str) -> PlanError:
    pattern = LITERALS[literal.kind].pattern
    expected = "no text" if not pattern else f"text like `{pattern}`" if len(pattern) < 90 else "a dtype of tapes"
    return _error("CAD5207", f"a literal of kind {literal.kind} has the wrong text", expected, shown(literal.text), at)


def _bad_view(view: View, at: str) -> Iterator[PlanError]:
    if not is_shape(view.sizes, view.strides) or min((view.offset, *view.sizes, *view.strides)) < 0:
        got = f"sizes {list(view.sizes)}, strides {list(view.strides)}, offset {view.offset}"
        expected = f"as many strides as sizes, at most {MAX_RANK}, nothing negative, fewer than 2^63 elements"
        yield _error("CAD5209", "a view has no shape", expected, shown(got), at)


def is_shape(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether these are sizes and strides of a tensor. Elements are counted without the dims that have none:
    torch multiplies sizes before it looks for a zero."""
    return len(sizes) == len(strides) <= MAX_RANK and math.prod(size for size in sizes if size) <= MAX_ELEMENTS


def _bad_storages(op: Op, ends: dict[int, int], tape: Tape, at: str) -> Iterator[PlanError]:
    """Yield what an op touches that its tape does not have, or that the op does not declare."""
    count = len(tape.storages)
    touched = {*op.reads, *op.writes}
    wrong = sorted(index for index in {*touched, *ends} if not 0 <= index < count)
    if wrong:
        yield _error("CAD5211", "an op names a storage that is not there", f"0 to {count - 1}", str(wrong[0]), at)
        return
    yield from _outside(ends, tape, at)
    undeclared = sorted(ends.keys() - touched)
    if touched and undeclared:
        what = "an op uses a storage that it neither reads nor writes"
        yield _error("CAD5210", what, "every operand's storage", f"storage {undeclared[0]}", at)
    for index in _written(op):
        if tape.storages[index].kind in {"weight", "constant"}:
            what = f"an op writes to a {tape.storages[index].kind}"
            yield _error("CAD5213", what, "scratch, inputs or leaves", f"storage {index}", at)


def _written(op: Op) -> list[int]:
    """Return the storages that an op changes: those it declares, and those its results are stored in unless it only
    makes views."""
    return sorted({*op.writes, *(view.storage for view in views_of(op.outs))}) if op.reads or op.writes else []


def _outside(ends: dict[int, int], tape: Tape, at: str) -> Iterator[PlanError]:
    for index, end in ends.items():
        size = tape.storages[index].size_bytes
        if end > size:
            expected, got = f"at most the {size} bytes of storage {index}", f"{end} bytes"
            yield _error("CAD5209", "a view reaches behind its storage", expected, got, at)


def _bad_names(tape: Tape, where: str, texts: Texts) -> Iterator[PlanError]:
    """Names go into messages and onto screens as they are."""
    rows = (*tape.inputs, *tape.state_in, *tape.outputs, *tape.state_out)
    names = [tape.stage, *(row.name for row in rows), *(storage.name for storage in tape.storages)]
    for name in names:
        if not texts.is_printable(name):
            yield _error("CAD5215", "a name of a tape is not printable", "printable text", shown(name), where)
            return


def _bad_bindings(tape: Tape, where: str, texts: Texts) -> Iterator[PlanError]:
    named = [(storage.kind, storage.name) for storage in tape.storages if storage.kind != "scratch"]
    if len(set(named)) != len(named):
        kind, name = next(each for each, count in Counter(named).items() if count > 1)
        what = f"two storages of a tape are one {kind}"
        yield _error("CAD5214", what, "each once, since storages share no byte", shown(name), where)
    yield from _bad_rows(tape, "inputs", tape.inputs, "input", where, texts)
    yield from _bad_rows(tape, "state_in", tape.state_in, "leaf", where, texts)
    yield from _bad_rows(tape, "outputs", tape.outputs, None, where, texts)
    yield from _bad_rows(tape, "state_out", tape.state_out, None, where, texts)
    for kind in ("input", "leaf"):
        bound = tape.inputs if kind == "input" else tape.state_in
        known = {row.name for row in bound if isinstance(row.value, View)}
        for index, storage in enumerate(tape.storages):
            if storage.kind == kind and storage.name not in known:
                what = f"storage {index} is of an {kind} that the stage does not have"
                yield _error("CAD5214", what.replace("an leaf", "a leaf"), _names(known), shown(storage.name), where)


def _bad_rows(
    tape: Tape, what: str, rows: tuple[Binding, ...], kind: StorageKind | None, where: str, texts: Texts
) -> Iterator[PlanError]:
    names = [row.name for row in rows]
    if len(set(names)) != len(names):
        yield _error("CAD5214", f"a name stands twice in the {what} of a tape", "each once", _names(names), where)
    for row in rows:
        at = f"{where}, {what} {shown(row.name)}"
        if isinstance(row.value, Literal):
            if not texts.fit(LITERALS[row.value.kind], row.value.text):
                yield _bad_literal(row.value, at)
            continue
        wrong = list(_bad_view(row.value, at))
        yield from wrong
        if wrong:
            continue
        if not 0 <= row.value.storage < len(tape.storages):
            expected = f"0 to {len(tape.storages) - 1}"
            yield _error("CAD5211", "a binding names a storage that is not there", expected, str(row.value.storage), at)
            continue
        yield from _outside(view_ends([row.value]), tape, at)
        if kind is not None and tape.storages[row.value.storage].kind != kind:
            got = f"a storage of kind {tape.storages[row.value.storage].kind}"
            yield _error("CAD5214", f"a name of the {what} stands for something else", f"one of kind {kind}", got, at)


def _names(names: Iterable[str]) -> str:
    return shown(", ".join(sorted(names)) or "none")
