"""The section `tapes`, by the page's "Tables"."""

from typing import Any

from .refused import need, refuse
from .tables import Pool, Words

STORAGES = ("leaf", "input", "weight", "constant", "scratch")
LITERALS = (
    "none", "bool", "int", "float", "complex", "str", "dtype", "device", "layout", "memory_format", "generator",
)  # fmt: skip
DTYPES = (
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float8_e4m3fn", "float8_e5m2",
    "bfloat16", "float16", "float32", "float64", "complex32", "complex64", "complex128",
)  # fmt: skip
Data = dict[str, Any]


class Reader:
    """Reads the pools one after the other."""

    def __init__(self, data: bytes) -> None:
        self.words = Words(data)
        self.strings = Pool([self.string() for _ in range(self.words.count())])
        self.storages = Pool([self.storage() for _ in range(self.words.count())])
        self.views = Pool([self.view() for _ in range(self.words.count())])
        self.literals = Pool([self.literal() for _ in range(self.words.count())])
        self.ops = Pool([self.op() for _ in range(self.words.count())])
        self.tapes = Pool([self.tape() for _ in range(self.words.count())])
        self.words.end()
        for pool in (self.strings, self.storages, self.views, self.literals, self.ops):
            pool.end()

    def string(self) -> str:
        try:
            return self.words.text().decode()
        except UnicodeDecodeError:
            refuse("strings are UTF-8")

    def name(self) -> str:
        return str(self.strings.use(self.words.word()))

    def flag(self) -> bool:
        return bool(self.words.word(0, 2))

    def storage(self) -> Data:
        kind = STORAGES[self.words.word(0, len(STORAGES))]
        return {"kind": kind, "name": self.name(), "size_bytes": self.words.word(), "host": self.flag()}

    def view(self) -> Data:
        storage, dtype = self.words.word(), DTYPES[self.words.word(0, len(DTYPES))]
        bits, offset, rank = self.words.word(0, 4), self.words.word(), self.words.count()
        return {
            "storage": storage,
            "dtype": dtype,
            "sizes": self.words.some(rank),
            "strides": self.words.some(rank),
            "offset": offset,
            "conj": bool(bits & 1),
            "neg": bool(bits & 2),
        }

    def literal(self) -> Data:
        return {"kind": LITERALS[self.words.word(0, len(LITERALS))], "text": self.name()}

    def operand(self, depth: int = 0) -> Any:
        value = self.words.word(-(1 << 63))
        if value >= 0:
            return (self.literals if value % 2 else self.views).use(value // 2)
        need(depth < 4, "tuples are at most 4 deep")
        need(-1 - value <= len(self.words.words), "more operands than words")
        return [self.operand(depth + 1) for _ in range(-1 - value)]

    def row(self) -> list[Any]:
        found = self.operand()
        need(isinstance(found, list), "args and outs are tuples")
        return list(found)

    def op(self) -> Data:
        name, source, draws, args = self.name(), self.name(), self.flag(), self.row()
        kwargs = [[self.name(), self.operand()] for _ in range(self.words.count())]
        outs, reads, writes = self.row(), self.words.counted(), self.words.counted()
        return {
            "name": name,
            "args": args,
            "kwargs": kwargs,
            "outs": outs,
            "reads": reads,
            "writes": writes,
            "source": source,
            "draws": draws,
        }

    def bindings(self) -> list[Data]:
        found = []
        for _ in range(self.words.count()):
            name, value = self.name(), self.operand()
            need(isinstance(value, dict), "a name is bound to a view or a literal")
            found.append({"name": name, "value": value})
        return found

    def tape(self) -> Data:
        stage, draws = self.name(), self.flag()
        storages = [self.storages.use(number) for number in self.words.counted()]
        inputs, state_in = self.bindings(), self.bindings()
        ops = [self.ops.use(number) for number in self.words.counted()]
        return {
            "stage": stage,
            "storages": storages,
            "inputs": inputs,
            "state_in": state_in,
            "ops": ops,
            "outputs": self.bindings(),
            "state_out": self.bindings(),
            "draws": draws,
        }


def decode(data: bytes) -> list[Data]:
    """Return the tapes; no two are equal."""
    return Reader(data).tapes.members
