"""The Plan as plain data: what a plan file holds once it is read, and before it is written.

State is tracked at the level of leaves. A leaf's *form* is all that a capture can depend on besides the bytes: dtype,
sizes, strides, the slot its bytes live in (its own, or another leaf's when the two are tied) and the offset there, or
that it is None, or the int that it holds. A *node* of the timeline is a configuration plus one form a leaf; a *key* is
what one stage sees of a node and of an event. The runtime follows forms as it goes: a capture says which forms it
leaves behind.
"""

from collections.abc import Sequence
from typing import Literal as OneOf

from cadence_runtime.format.cuda import CudaPart
from cadence_runtime.format.tape import Literal, Tape
from cadence_runtime.format.templates import Graphs
from cadence_runtime.frozen import frozen
from cadence_runtime.host.program import Configuration, Program

Target = OneOf["cpu", "cuda"]

INIT, RESET = "init", "reset"
"""Reserved stage names: the model's `init_state` and `reset`. Their keys have no args; `init` reads no leaf."""


@frozen
class TensorForm:
    """A tensor as a capture sees it; strides count elements, `offset` counts elements from the start of its slot.
    `slot` is a leaf's index; -1 for inputs and outputs, which have slots of their own. Leaves whose bytes overlap are
    tied: they share the slot of the first of them."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    slot: int = -1
    offset: int = 0


Form = TensorForm | Literal
"""A literal form is None, or the int of a state leaf that a counter declares, or the literal value of an input."""


@frozen
class Leaf:
    """A leaf of the model's state, by its pytree path (`k`, `layers.0.h`; the root is `.`). `owner` names its region
    or, for a Python int, its counter. A region that a stage takes row by row has a leaf for each row (`att[0]`,
    `att[1]`). `slot_offset` and `slot_bytes` place its slot in the state slab; a slot is as
    long as the longest span that any form of any leaf takes in it, and may be empty."""

    path: str
    owner: str
    slot_offset: int
    slot_bytes: int


@frozen
class Key:
    """What one capture depends on. `args` are the values of the stage's args, and behind them its index where it
    repeats. `state` pairs a leaf's index with a form's index, for the leaves that the stage reads, sorted by leaf; a
    model without a `reset` of its own resets by `init_state`, which reads none."""

    stage: str
    args: tuple[int, ...]
    inputs: tuple[Form, ...]
    state: tuple[tuple[int, int], ...]


@frozen
class Capture:
    """One stage at one key. `tape` is an index into `Plan.tapes`. `writes` are the forms that it leaves behind;
    `outputs` and `input_offsets`, `output_offsets` describe the io section (byte offsets within it).
    `scratch` places each planned scratch storage of the tape, by storage index: (storage, byte offset)."""

    key: Key
    tape: int
    writes: tuple[tuple[int, int], ...]
    outputs: tuple[Form, ...]
    input_offsets: tuple[int, ...]
    output_offsets: tuple[int, ...]
    scratch: tuple[tuple[int, int], ...]


@frozen
class Node:
    """A reachable state of a session: `forms` has one form index per leaf."""

    configuration: Configuration
    forms: tuple[int, ...]


@frozen
class Transition:
    """A push that may happen at a node: the external event and the internal ones that follow until none is enabled.

    `source` and `target` are nodes, `event` is the external event's index in the program, `choices` are its choices'
    values. `captures` run in order: for each event of the push its stages, repeats listed one by one, and the reset
    last where the event resets. `target` is the node once everything has settled.
    """

    source: int
    event: int
    choices: tuple[int, ...]
    captures: tuple[int, ...]
    target: int


@frozen
class Section:
    """One part of the arena; `lower_bound` is what no packing can go below, `method` how the packing was found."""

    name: OneOf["weights", "constants", "state", "io", "scratch", "rows", "library"]
    offset: int
    size_bytes: int
    lower_bound: int
    method: str


@frozen
class Weight:
    """A tensor that tapes read by name. `sha256` is of its raw little-endian bytes; `offset` is within `weights`.
    `blob` is the index of its embedded bytes, or None when it is read from the weights file."""

    name: str
    dtype: str
    sizes: tuple[int, ...]
    sha256: str
    offset: int
    blob: int | None


@frozen
class Constant:
    """A folded tensor's storage, by the digest of its bytes; `offset` is within `constants`."""

    sha256: str
    size_bytes: int
    offset: int
    blob: int


@frozen
class Fidelity:
    """What was compared, bit for bit, before the plan was written: each tape on `values_per_tape` sets of values or
    more (three where its sequence of ops was met first), and a walk."""

    tapes: int
    values_per_tape: int
    walk_events: int
    outputs_compared: int
    constant_outputs: tuple[str, ...]


@frozen
class Provenance:
    """What the plan was made from and with; `environment` are sorted (name, value) pairs that `check` compares
    (torch, cpu capability, threads, ...), `numerics` the flags that stock and replay both ran under."""

    model: str
    entry: str
    spec_sha256: str
    compiler: str
    environment: tuple[tuple[str, str], ...]
    numerics: tuple[tuple[str, str], ...]
    random_weights: bool


@frozen
class Plan:
    """Everything in a plan file. Indices between its parts are positions in these tuples. `init` is the capture that
    makes the state of node 0, where every session starts. `blobs` hold raw bytes of constants, embedded weights and
    (for CUDA) kernel images."""

    target: Target
    program: Program
    leaves: tuple[Leaf, ...]
    forms: tuple[Form, ...]
    tapes: tuple[Tape, ...]
    captures: tuple[Capture, ...]
    nodes: tuple[Node, ...]
    transitions: tuple[Transition, ...]
    init: int
    sections: tuple[Section, ...]
    weights: tuple[Weight, ...]
    weights_file: str | None
    constants: tuple[Constant, ...]
    blobs: Sequence[bytes]
    fidelity: Fidelity
    provenance: Provenance
    cuda: CudaPart | None = None


def minor_of(plan: Plan) -> int:
    """Return the oldest minor version of the format that can read a plan: captures share graphs since 1.1, and graphs
    stand by template since 1.2."""
    if plan.cuda is None:
        return 0
    return 2 if isinstance(plan.cuda.graphs, Graphs) else int(bool(plan.cuda.launches))
