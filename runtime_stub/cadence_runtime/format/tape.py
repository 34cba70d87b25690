"""The Tape: the device-independent op list of one stage at one shape key.

Every operand is a *storage plus a view*, so aliasing is a fact of the tape and not something to be derived again, and
an op that only makes a view reads and writes nothing. A tape is a value: two equal tapes replay the same bits on the
same target.

    y = x + state; state = cat(state[1:], x)        storages            ops
                                                    0 leaf  state       aten::add.Tensor  x, 0[0:4]      -> 2[0:4]
                                                    1 input x           aten::cat         0[1:4], 1[0:1] -> 3[0:4]
                                                    2 scratch
                                                    3 scratch           outputs y = 2[0:4]   state = 3[0:4]

Replay of a tape: run the ops in order; copy the outputs out; then store `state_out`, every new leaf being computed
before any leaf's slot is written. `docs/tape.md` is the specification.
"""

from typing import Literal as OneOf

from cadence_runtime.frozen import frozen

StorageKind = OneOf["leaf", "input", "weight", "constant", "scratch"]
"""Where the bytes of a storage come from: a leaf's slot in the state slab, an input, a tensor of the weights file, a
blob of the plan, or an op of the same tape."""

ITEM_BYTES: dict[str, int] = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "bfloat16": 2, "float16": 2, "float32": 4, "float64": 8,
    "complex32": 4, "complex64": 8, "complex128": 16,
}  # fmt: skip
"""Bytes of one element of each dtype a tape may hold, by its torch name."""

LiteralKind = OneOf[
    "none", "bool", "int", "float", "complex", "str", "dtype", "device", "layout", "memory_format", "generator"
]


@frozen
class Storage:
    """A run of bytes that views point into. `name` is the leaf's path, the input's name, the weight's tensor name or
    the constant's digest; it is empty for scratch. `host` says that the bytes lie in host memory although the target
    is a device (a scalar tensor that a CUDA kernel takes by value)."""

    kind: StorageKind
    name: str
    size_bytes: int
    host: bool = False


@frozen
class View:
    """A strided window on a storage; `offset` and `strides` count elements of `dtype`. `conj` and `neg` are torch's
    lazy conjugation and negation bits."""

    storage: int
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    conj: bool = False
    neg: bool = False

    def __hash__(self) -> int:
        """Of text: the hash of numbers is known to all, and a plan could hold views by the thousand that share one."""
        return hash(f"{self.storage} {self.offset} {self.sizes} {self.strides}")

    def span(self) -> tuple[int, int]:
        """Return the half-open range of bytes within the storage that the view can touch. A view without elements
        touches none, wherever it says it is: torch lets it stand behind the end."""
        item_bytes = ITEM_BYTES[self.dtype]
        if 0 in self.sizes:
            return (0, 0)
        last = sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
        return (self.offset * item_bytes, (self.offset + last + 1) * item_bytes)


@frozen
class Literal:
    """A non-tensor operand, as text that keeps every bit: ints in decimal, floats as the 16 hex digits of their IEEE
    double, complex as two of those with a comma, dtypes and the like by torch's name without `torch.`, devices as
    `target` or `cpu`, and the empty string for none and for the default generator."""

    kind: LiteralKind
    text: str


Operand = View | Literal | tuple["Operand", ...]


@frozen
class Op:
    """One call of a torch op, by schema name and overload (`aten::add.Tensor`; `aten::relu` has none).

    `args` are positional and `kwargs` sorted by name, both as the model passed them; `outs` mirrors the returns of the
    schema. `reads` and `writes` are storages, sorted; an output that is a fresh tensor is a write of its storage.
    An op that only makes views or reserves memory has neither. `source` is `file:line` of the model's code, or empty.
    `draws` says that the op advances the default generator.
    """

    name: str
    args: tuple[Operand, ...]
    kwargs: tuple[tuple[str, Operand], ...]
    outs: tuple[Operand, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    source: str
    draws: bool = False


@frozen
class Binding:
    """A name of the stage's interface (input, output or leaf path) and what it stands for. A literal is a state leaf
    or an output that is no tensor (None, or an int held by a counter)."""

    name: str
    value: View | Literal


@frozen
class Tape:
    """`inputs` and `state_in` bind names to views of `input` and `leaf` storages; `outputs` and `state_out` to views
    of any storage. `draws` says whether an op advances the generator."""

    stage: str
    storages: tuple[Storage, ...]
    inputs: tuple[Binding, ...]
    state_in: tuple[Binding, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Binding, ...]
    state_out: tuple[Binding, ...]
    draws: bool = False
