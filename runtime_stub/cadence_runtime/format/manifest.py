"""The manifest: everything of a plan but its nodes, transitions, tapes and blobs, as one canonical JSON object.

The tables below are the whole schema, one row a dataclass, in the order of `plan.py` and `host/program.py`.
"""

from collections.abc import Sequence
from functools import partial

from cadence_runtime.errors import PlanError
from cadence_runtime.format.cuda import CudaPart
from cadence_runtime.format.plan import (
    Capture,
    Constant,
    Fidelity,
    Form,
    Key,
    Leaf,
    Node,
    Plan,
    Provenance,
    Section,
    Target,
    TensorForm,
    Transition,
    Weight,
)
from cadence_runtime.format.schema import (
    BOOL,
    COUNT,
    DIGEST,
    EXPRESSION,
    FRACTION,
    INT,
    SCALAR,
    TEXT,
    Codec,
    either,
    integer,
    items,
    listed,
    one_of,
    optional,
    read,
    record,
)
from cadence_runtime.format.strict_json import dumps, loads
from cadence_runtime.format.tape import ITEM_BYTES, Literal, Tape
from cadence_runtime.frozen import frozen
from cadence_runtime.host.program import (
    ABSENT,
    Choice,
    Clock,
    Counter,
    Event,
    EventInput,
    Horizon,
    Program,
    Queue,
    Region,
    Retention,
    Stage,
    StageInput,
)

# The host program.

MAX_MANIFEST_BYTES = 1 << 28
MAX_DIMS, MAX_PARTS, MAX_ROWS = 64, 4096, 1 << 20
"""Of a tensor; of each list of a program, which the checks go through again and again; of a queue at the start."""
dims = partial(listed, most=MAX_DIMS)
part = partial(listed, most=MAX_PARTS)

DTYPE = one_of(*ITEM_BYTES)
RETENTION = record(Retention, kind=one_of("fixed", "grow", "window", "ring"), cap=optional(COUNT))
REGION = record(
    Region,
    name=TEXT,
    leaves=part(TEXT),
    dtype=DTYPE,
    shape=dims(optional(COUNT)),
    axis=optional(COUNT),
    clock=optional(TEXT),
    start=integer(lower=ABSENT),
    retention=RETENTION,
    layout=one_of("kept", "contiguous"),
)
STAGE_INPUT = record(
    StageInput,
    name=TEXT,
    dtype=one_of("", *ITEM_BYTES),
    literals=part(SCALAR),
    lower=optional(INT),
    upper=optional(INT),
)
STAGE = record(
    Stage,
    name=TEXT,
    reads=part(TEXT),
    writes=part(TEXT),
    inputs=part(STAGE_INPUT),
    outputs=part(TEXT),
    args=part(TEXT),
    repeat=optional(items(TEXT, COUNT)),
    indexed=part(TEXT),
)
EVENT_INPUT = record(EventInput, name=TEXT, shape=dims(EXPRESSION), literal=optional(SCALAR))
EVENT = record(
    Event,
    name=TEXT,
    internal=BOOL,
    when=optional(EXPRESSION),
    choices=part(record(Choice, name=TEXT, lower=INT, upper=INT)),
    lets=part(items(TEXT, EXPRESSION)),
    inputs=part(EVENT_INPUT),
    advance=optional(items(TEXT, EXPRESSION)),
    run=part(TEXT),
    effects=part(items(TEXT, EXPRESSION)),
    restart=part(TEXT),
    reset=BOOL,
    outputs=part(TEXT),
)
PROGRAM = record(
    Program,
    params=part(items(TEXT, INT)),
    clocks=part(record(Clock, name=TEXT, rate_hz=FRACTION)),
    counters=part(record(Counter, name=TEXT, start=INT, leaf=TEXT)),
    queues=part(record(Queue, name=TEXT, counter=TEXT, dtype=DTYPE, axis=INT, start=listed(INT, most=MAX_ROWS))),
    regions=part(REGION),
    stages=part(STAGE),
    events=part(EVENT),
    horizon=optional(record(Horizon, unit=one_of("events", "seconds"), limit=FRACTION)),
    cadence_s=optional(FRACTION),
)

# Forms, keys and captures.

TENSOR_FORM = record(
    TensorForm, dtype=DTYPE, sizes=dims(COUNT), strides=dims(COUNT), slot=integer(lower=-1), offset=COUNT
)
FORM: Codec[Form] = either(
    {
        "tensor": (TensorForm, TENSOR_FORM),
        "literal": (Literal, record(Literal, kind=one_of("none", "bool", "int", "float", "str"), text=TEXT)),
    }
)
PAIRS = listed(items(COUNT, COUNT))
KEY = record(Key, stage=TEXT, args=listed(INT), inputs=listed(FORM), state=PAIRS)
CAPTURE = record(
    Capture,
    key=KEY,
    tape=COUNT,
    writes=PAIRS,
    outputs=listed(FORM),
    input_offsets=listed(COUNT),
    output_offsets=listed(COUNT),
    scratch=PAIRS,
)
LEAF = record(Leaf, path=TEXT, owner=TEXT, slot_offset=COUNT, slot_bytes=COUNT)

# The arena, and where things come from.

SECTION = record(
    Section,
    name=one_of("weights", "constants", "state", "io", "scratch", "rows", "library"),
    offset=COUNT,
    size_bytes=COUNT,
    lower_bound=COUNT,
    method=TEXT,
)
WEIGHT = record(Weight, name=TEXT, dtype=DTYPE, sizes=dims(COUNT), sha256=DIGEST, offset=COUNT, blob=optional(COUNT))
CONSTANT = record(Constant, sha256=DIGEST, size_bytes=COUNT, offset=COUNT, blob=COUNT)
FIDELITY = record(
    Fidelity,
    tapes=COUNT,
    values_per_tape=COUNT,
    walk_events=COUNT,
    outputs_compared=COUNT,
    constant_outputs=listed(TEXT),
)
PROVENANCE = record(
    Provenance,
    model=TEXT,
    entry=TEXT,
    spec_sha256=DIGEST,
    compiler=TEXT,
    environment=listed(items(TEXT, TEXT)),
    numerics=listed(items(TEXT, TEXT)),
    random_weights=BOOL,
)


@frozen
class Manifest:
    """The fields of `Plan` that stand in the manifest."""

    target: Target
    program: Program
    leaves: tuple[Leaf, ...]
    forms: tuple[Form, ...]
    captures: tuple[Capture, ...]
    init: int
    sections: tuple[Section, ...]
    weights: tuple[Weight, ...]
    weights_file: str | None
    constants: tuple[Constant, ...]
    fidelity: Fidelity
    provenance: Provenance

    def plan(
        self,
        tapes: tuple[Tape, ...],
        nodes: tuple[Node, ...],
        transitions: tuple[Transition, ...],
        blobs: Sequence[bytes],
        cuda: CudaPart | None,
    ) -> Plan:
        """Return the whole plan, with the parts that stand outside of the manifest."""
        own = {name: getattr(self, name) for name in self.__match_args__}
        return Plan(tapes=tapes, nodes=nodes, transitions=transitions, blobs=blobs, cuda=cuda, **own)


MANIFEST = record(
    Manifest,
    target=one_of("cpu", "cuda"),
    program=PROGRAM,
    leaves=listed(LEAF),
    forms=listed(FORM),
    captures=listed(CAPTURE),
    init=COUNT,
    sections=listed(SECTION),
    weights=listed(WEIGHT),
    weights_file=optional(TEXT),
    constants=listed(CONSTANT),
    fidelity=FIDELITY,
    provenance=PROVENANCE,
)


def encode_manifest(plan: Plan) -> bytes:
    """Return the manifest of a plan as canonical JSON."""
    manifest = Manifest(**{name: getattr(plan, name) for name in Manifest.__match_args__})
    return dumps(MANIFEST.encode(manifest))


def decode_manifest(data: bytes) -> Manifest:
    """Read a manifest. Raises PlanError CAD5101 to CAD5109."""
    return read(MANIFEST, loads(data))


def require_manifest_size(size_bytes: int) -> None:
    """Raise PlanError CAD5018 for a manifest that is too long to be read at all."""
    if size_bytes > MAX_MANIFEST_BYTES:
        expected, got = f"at most {MAX_MANIFEST_BYTES} bytes", f"{size_bytes} bytes"
        raise PlanError("CAD5018", "the manifest is too long", expected=expected, got=got)
