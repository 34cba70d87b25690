"""Tapes as words: what tapes have in common stands once, in pools, and everything else is an index.

    strings    count, then each: length in bytes, UTF-8 padded with zeros to whole words
    storages   count, then each: kind, name (string), size in bytes, host
    views      count, then each: storage, dtype, conj + 2 neg, offset, rank, sizes, strides
    literals   count, then each: kind, text (string)
    ops        count, then each: name, source (strings), draws, operands of args, number of kwargs and (name, operand)
               of each, operands of outs, number of reads and each, number of writes and each
    tapes      count, then each: stage (string), draws, storages, then (name, operand) rows of inputs and state_in, ops,
               then rows of outputs and state_out

An operand is one word: 2 v for view v, 2 l + 1 for literal l, -1 - n for a tuple of the n operands that follow. A pool
holds nothing twice, and its members stand in the order in which the section first uses them, front to back; so there is
one way to write a list of tapes. What a tape means is checked elsewhere, in `check_tape.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar, get_args

from cadence_runtime.errors import PlanError
from cadence_runtime.format.tape import (
    ITEM_BYTES,
    Binding,
    Literal,
    LiteralKind,
    Op,
    Operand,
    Storage,
    StorageKind,
    Tape,
    View,
)
from cadence_runtime.format.words import WORD_BYTES, Words, pack

TAPES = "tapes"
STORAGE_KINDS: tuple[StorageKind, ...] = get_args(StorageKind)
LITERAL_KINDS: tuple[LiteralKind, ...] = get_args(LiteralKind)
DTYPES = tuple(ITEM_BYTES)
MAX_STRING_BYTES = 1 << 16
MAX_OPERAND_DEPTH = 4
MAX_WRITTEN_OUT = 1 << 26
"""Words of all tapes with each op in full: pools let a few bytes stand for a day's work."""
"""Tuples within one another; torch's schemas need 2."""

T = TypeVar("T")


# Writing: first the pools, by walking in the order of the file; then the words.


class _Pool(Generic[T]):
    """Numbers things in the order in which they are first asked for. Tapes share most of what is in them, and a thing
    that was asked for is known by its place in memory: the tapes hold it."""

    def __init__(self) -> None:
        self.numbers: dict[T, int] = {}
        self._known: dict[int, int] = {}

    def __call__(self, item: T) -> int:
        number = self._known.get(id(item))
        if number is None:
            number = self._known[id(item)] = self.numbers.setdefault(item, len(self.numbers))
        return number

    def body(self, words: Callable[[T], Iterable[int]]) -> list[int]:
        return [len(self.numbers), *(word for item in self.numbers for word in words(item))]


class _Writer:
    """The pools of one section."""

    def __init__(self) -> None:
        self.strings: _Pool[str] = _Pool()
        self.storages: _Pool[Storage] = _Pool()
        self.views: _Pool[View] = _Pool()
        self.literals: _Pool[Literal] = _Pool()
        self.ops: _Pool[Op] = _Pool()

    def section(self, tapes: Sequence[Tape]) -> list[int]:
        for tape in tapes:
            for storage in tape.storages:
                self.storages(storage)
            for op in tape.ops:
                self.ops(op)
        for op in self.ops.numbers:
            self._meet(_operands(op))
        for tape in tapes:
            self._meet(row.value for row in (*tape.inputs, *tape.state_in, *tape.outputs, *tape.state_out))
        words = self.storages.body(self.storage) + self.views.body(_view_words) + self.literals.body(self.literal)
        words += self.ops.body(self.op)
        words += [len(tapes), *(word for tape in tapes for word in self.tape(tape))]
        return self.strings.body(_string_words) + words

    def _meet(self, operands: Iterable[Operand]) -> None:
        for operand in operands:
            for _ in self.operand(operand):
                pass

    def storage(self, storage: Storage) -> tuple[int, ...]:
        kind = STORAGE_KINDS.index(storage.kind)
        return (kind, self.strings(storage.name), storage.size_bytes, int(storage.host))

    def literal(self, literal: Literal) -> tuple[int, ...]:
        return (LITERAL_KINDS.index(literal.kind), self.strings(literal.text))

    def operand(self, operand: Operand) -> Iterator[int]:
        if isinstance(operand, View):
            yield 2 * self.views(operand)
        elif isinstance(operand, Literal):
            yield 2 * self.literals(operand) + 1
        else:
            yield -1 - len(operand)
            for item in operand:
                yield from self.operand(item)

    def op(self, op: Op) -> Iterator[int]:
        yield from (self.strings(op.name), self.strings(op.source), int(op.draws))
        yield from self.operand(op.args)
        yield len(op.kwargs)
        for name, operand in op.kwargs:
            yield self.strings(name)
            yield from self.operand(operand)
        yield from self.operand(op.outs)
        yield from (len(op.reads), *op.reads, len(op.writes), *op.writes)

    def rows(self, rows: Sequence[Binding]) -> Iterator[int]:
        yield len(rows)
        for row in rows:
            yield self.strings(row.name)
            yield from self.operand(row.value)

    def tape(self, tape: Tape) -> Iterator[int]:
        yield from (self.strings(tape.stage), int(tape.draws))
        yield from (len(tape.storages), *map(self.storages, tape.storages))
        yield from (*self.rows(tape.inputs), *self.rows(tape.state_in))
        yield from (len(tape.ops), *map(self.ops, tape.ops))
        yield from (*self.rows(tape.outputs), *self.rows(tape.state_out))


def _operands(op: Op) -> tuple[Operand, ...]:
    return (op.args, *(operand for _, operand in op.kwargs), op.outs)


def _string_words(text: str) -> Iterator[int]:
    data = text.encode()
    yield len(data)
    for start in range(0, len(data), WORD_BYTES):
        yield int.from_bytes(data[start : start + WORD_BYTES].ljust(WORD_BYTES, b"\0"), "little", signed=True)


def _view_words(view: View) -> tuple[int, ...]:
    flags = int(view.conj) + 2 * int(view.neg)
    head = (view.storage, DTYPES.index(view.dtype), flags, view.offset, len(view.sizes))
    return (*head, *view.sizes, *view.strides)


def encode_tapes(tapes: Sequence[Tape]) -> bytes:
    """Return section `tapes`."""
    return pack(_Writer().section(tapes))


# Reading: the pools again, then everything by index.


class _Members(Generic[T]):
    """A pool being used: its members are first asked for in order, and in the end all of them are."""

    def __init__(self, words: Words, what: str, item_words: int, read: Callable[[], T]) -> None:
        self.words, self.what, self.used = words, what, 0
        self.items: list[T] = []
        # Members are told apart by their words: hashes of numbers that a plan chooses can all be the same.
        seen = set()
        for _ in range(words.count(f"a number of {what}s", item_words)):
            start = words.position
            self.items.append(read())
            seen.add(words.since(start))
        if len(seen) != len(self.items):
            raise _not_canonical(words, f"a {what} stands twice", "each once")

    def __getitem__(self, index: int) -> T:
        if index >= self.used:
            if index > self.used or index >= len(self.items):
                raise self.words.out_of_range(f"a {self.what}", 0, min(self.used + 1, len(self.items)), index)
            self.used += 1
        return self.items[index]

    def next(self) -> T:
        return self[self.words.take(0, len(self.items), f"a {self.what}")]

    def finish(self) -> None:
        if self.used != len(self.items):
            raise _not_canonical(self.words, f"{self.what} {self.used} is never used", "all used")


def _not_canonical(words: Words, what: str, expected: str) -> PlanError:
    at = f"section `{TAPES}`, before word {words.position}"
    return PlanError("CAD5204", "section `tapes` is not in canonical form", expected=expected, got=what, at=at)


class _Reader:
    """Reads the section front to back."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.op_words: dict[int, int] = {}
        self.written_out = 0
        self.strings = _Members(words, "string", 1, self.string)
        self.storages = _Members(words, "storage", 4, self.storage)
        self.views = _Members(words, "view", 5, self.view)
        self.literals = _Members(words, "literal", 2, self.literal)
        self.ops = _Members(words, "op", 8, self.op)

    def section(self) -> tuple[Tape, ...]:
        tapes, seen = [], set()
        for _ in range(self.words.count("a number of tapes", 8)):
            start = self.words.position
            tapes.append(self.tape())
            seen.add(self.words.since(start))
        if len(seen) != len(tapes):
            raise _not_canonical(self.words, "a tape stands twice", "each once")
        for pool in (self.strings, self.storages, self.views, self.literals, self.ops):
            pool.finish()
        self.words.finish()
        return tuple(tapes)

    def string(self) -> str:
        words, start = self.words, self.words.position
        size = words.take(0, MAX_STRING_BYTES + 1, "the length of a string")
        padded = pack(words.many(-(-size // WORD_BYTES), "a string", lower=-(2**63)))
        try:
            text = padded[:size].decode()
        except UnicodeDecodeError:
            text = None
        if text is None or any(padded[size:]):
            at = f"section `{TAPES}`, word {start}"
            raise PlanError(
                "CAD5205", "a string of the tapes is damaged", expected="UTF-8, then zeros", got="other bytes", at=at
            )
        return text

    def flag(self, what: str) -> bool:
        return self.words.take(0, 2, what) == 1

    def storage(self) -> Storage:
        kind = STORAGE_KINDS[self.words.take(0, len(STORAGE_KINDS), "a kind of storage")]
        name = self.strings.next()
        return Storage(kind, name, self.words.take(0, 2**63, "a size in bytes"), self.flag("host"))

    def view(self) -> View:
        words = self.words
        storage = words.take(0, 2**63, "a storage")
        dtype = DTYPES[words.take(0, len(DTYPES), "a dtype")]
        flags = words.take(0, 4, "conj and neg")
        offset = words.take(0, 2**63, "an offset")
        rank = words.count("a rank", 2)
        sizes, strides = words.many(rank, "a size"), words.many(rank, "a stride")
        return View(storage, dtype, sizes, strides, offset, bool(flags & 1), bool(flags & 2))

    def literal(self) -> Literal:
        kind = LITERAL_KINDS[self.words.take(0, len(LITERAL_KINDS), "a kind of literal")]
        return Literal(kind, self.strings.next())

    def operand(self, depth: int = 0) -> Operand:
        words = self.words
        word = words.take(-(2**63), 2**63, "an operand")
        if word >= 0:
            return self.literals[word >> 1] if word & 1 else self.views[word >> 1]
        count = -1 - word
        if depth == MAX_OPERAND_DEPTH or count > len(words.words) - words.position:
            words.position -= 1
            raise words.out_of_range(
                "a number of operands, 4 deep at most,", 0, len(words.words) - words.position, count
            )
        return tuple(self.operand(depth + 1) for _ in range(count))

    def operands(self) -> tuple[Operand, ...]:
        found = self.operand()
        if isinstance(found, tuple):
            return found
        raise _not_canonical(self.words, "one operand", "a tuple of operands")

    def op(self) -> Op:
        words, start = self.words, self.words.position
        name, source, draws = self.strings.next(), self.strings.next(), self.flag("draws")
        args = self.operands()
        kwargs = tuple((self.strings.next(), self.operand()) for _ in range(words.count("a number of kwargs", 2)))
        outs = self.operands()
        reads = words.many(words.count("a number of reads"), "a storage")
        writes = words.many(words.count("a number of writes"), "a storage")
        op = Op(name, args, kwargs, outs, reads, writes, source, draws)
        self.op_words[id(op)] = words.position - start
        return op

    def rows(self) -> tuple[Binding, ...]:
        return tuple(self.row() for _ in range(self.words.count("a number of bindings", 2)))

    def row(self) -> Binding:
        name, value = self.strings.next(), self.operand()
        if isinstance(value, tuple):
            raise _not_canonical(self.words, "a tuple", "a view or a literal")
        return Binding(name, value)

    def in_full(self) -> Op:
        """Return the next op of a tape, and count its words."""
        op = self.ops.next()
        self.written_out += self.op_words[id(op)]
        if self.written_out > MAX_WRITTEN_OUT:
            raise PlanError(
                "CAD5216",
                "the tapes are too long",
                expected=f"at most {MAX_WRITTEN_OUT} words, each op in full",
                got="more",
                at=f"section `{TAPES}`, word {self.words.position - 1}",
            )
        return op

    def tape(self) -> Tape:
        words = self.words
        stage, draws = self.strings.next(), self.flag("draws")
        storages = tuple(self.storages.next() for _ in range(words.count("a number of storages")))
        inputs, state_in = self.rows(), self.rows()
        ops = tuple(self.in_full() for _ in range(words.count("a number of ops")))
        return Tape(stage, storages, inputs, state_in, ops, self.rows(), self.rows(), draws)


def decode_tapes(data: bytes) -> tuple[Tape, ...]:
    """Read section `tapes`. Raises PlanError CAD5201, CAD5202, CAD5204, CAD5205 or CAD5216."""
    return _Reader(Words(TAPES, data)).section()
