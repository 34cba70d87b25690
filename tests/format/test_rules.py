"""One change to a valid plan, one rule that notices: each row says which."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cadence_runtime.errors import CadenceError, ErrorList
from cadence_runtime.format import closure
from cadence_runtime.format.cuda import (
    DeviceGlobal,
    Edge,
    KernelNode,
    Launch,
    MemcpyNode,
    MemsetNode,
    Move,
    Relocation,
)
from cadence_runtime.format.plan import Plan, Section, TensorForm
from cadence_runtime.format.reader import read_plan
from cadence_runtime.format.tape import Binding, Literal, Op, Storage, Tape, View
from cadence_runtime.format.templates import by_template
from cadence_runtime.format.validate import validate
from cadence_runtime.host.expression import parse
from cadence_runtime.host.program import Choice, Event
from tests.format.forge import forged, join, sections, swapped, word
from tests.format.plans import cuda_example, example

PLAN, CUDA = example(), cuda_example()


def found(run: Callable[[], object]) -> set[str]:
    try:
        run()
    except ErrorList as errors:
        return {error.code for error in errors.errors}
    except CadenceError as error:
        return {error.code}
    return set()


def test_the_examples_keep_every_rule():
    assert found(lambda: validate(PLAN)) == found(lambda: validate(CUDA)) == set()


# Tapes.


def tape(**changes: object) -> Plan:
    tapes = list(PLAN.tapes)
    tapes[1] = replace(tapes[1], **changes)  # type: ignore[arg-type]
    return replace(PLAN, tapes=tuple(tapes))


def op(number: int = 1, **changes: object) -> Plan:
    ops = list(PLAN.tapes[1].ops)
    ops[number] = replace(ops[number], **changes)  # type: ignore[arg-type]
    return tape(ops=tuple(ops))


def view(**changes: object) -> Plan:
    args = PLAN.tapes[1].ops[1].args
    return op(args=(replace(args[0], **changes), args[1]))  # type: ignore[type-var]


def literal(kind: str, text: str) -> Plan:
    return op(kwargs=(("alpha", Literal(kind, text)),))  # type: ignore[arg-type]


STORAGES = PLAN.tapes[1].storages
KV = PLAN.tapes[1].state_in[0].value
assert isinstance(KV, View)

TAPES = {
    "an op without a namespace": (op(name="mul"), "CAD5206"),
    "an op with a dot too many": (op(name="aten::mul.a.b"), "CAD5206"),
    "an op with a line end": (op(name="aten::mul\n"), "CAD5206"),
    "an op in other letters": (op(name="aten::mül"), "CAD5206"),
    "a float in decimal": (literal("float", "1.5"), "CAD5207"),
    "a float in capitals": (literal("float", "3FF8000000000000"), "CAD5207"),
    "minus zero": (literal("int", "-0"), "CAD5207"),
    "a number of 20 digits": (literal("int", "9" * 20), "CAD5207"),
    "a capital bool": (literal("bool", "True"), "CAD5207"),
    "none with text": (literal("none", "x"), "CAD5207"),
    "an unknown dtype": (literal("dtype", "float31"), "CAD5207"),
    "a device by number": (literal("device", "cuda:1"), "CAD5207"),
    "a dunder as a layout": (literal("layout", "__class__"), "CAD5207"),
    "a generator with text": (literal("generator", "g"), "CAD5207"),
    "kwargs twice": (op(kwargs=(("a", Literal("none", "")),) * 2), "CAD5208"),
    "a kwarg that is no name": (op(kwargs=(("a b", Literal("none", "")),)), "CAD5208"),
    "a negative size": (view(sizes=(1, 1, -4)), "CAD5209"),
    "a negative stride": (view(strides=(4, 4, -1)), "CAD5209"),
    "a negative offset": (view(offset=-1), "CAD5209"),
    "more sizes than strides": (view(sizes=(1, 1, 1, 4)), "CAD5209"),
    "too many dims": (view(sizes=(1,) * 65, strides=(1,) * 65), "CAD5209"),
    "a view with a huge stride": (view(sizes=(2, 1, 4), strides=(2**62, 4, 1)), "CAD5209"),
    "reads in another order": (op(reads=(4, 3)), "CAD5210"),
    "a read twice": (op(reads=(3, 3, 4)), "CAD5210"),
    "a write that is not told": (op(writes=()), "CAD5210"),
    "a negative storage": (op(reads=(-1, 3, 4)), "CAD5211"),
    "a view of no storage": (view(storage=7), "CAD5211"),
    "an output of no storage": (tape(outputs=(Binding("y", replace(KV, storage=-1)),)), "CAD5211"),
    "draws without an op that does": (tape(draws=True), "CAD5212"),
    "a write to a constant": (op(writes=(3, 5)), "CAD5213"),
    "a leaf on an input": (tape(state_in=(Binding("kv", replace(KV, storage=0)),)), "CAD5214"),
    "an input twice": (tape(inputs=PLAN.tapes[1].inputs * 2), "CAD5505"),
    "a leaf storage of no leaf": (tape(storages=(*STORAGES, Storage("leaf", "other", 4))), "CAD5214"),
    "an input storage of no input": (tape(storages=(*STORAGES, Storage("input", "z", 4))), "CAD5214"),
    "a stage in red": (op(source="\x1b[31m"), "CAD5215"),
    "text that turns around": (op(source="\u202emodel.py"), "CAD5215"),
}


@pytest.mark.parametrize("what", TAPES)
def test_tapes(what):
    plan, code = TAPES[what]
    assert code in found(lambda: validate(plan))


def test_an_op_that_only_makes_views_declares_nothing():
    reserve = Op("aten::empty", (), (), (View(4, "float32", (4,), (1,), 0),), (), (), "")
    assert found(lambda: validate(tape(ops=(reserve, *PLAN.tapes[1].ops)))) == set()


# Captures and what they name.


def capture(**changes: object) -> Plan:
    captures = list(PLAN.captures)
    captures[1] = replace(captures[1], **changes)  # type: ignore[arg-type]
    return replace(PLAN, captures=tuple(captures))


def key(**changes: object) -> Plan:
    return capture(key=replace(PLAN.captures[1].key, **changes))  # type: ignore[arg-type]


ROW = PLAN.captures[1].outputs[0]
assert isinstance(ROW, TensorForm)
INIT_TAPE: Tape = PLAN.tapes[0]

NEVER = Event("never", when=parse("0"), choices=(Choice("n", 0, 1_000_000),))

REFERENCES = {
    "two leaves of one path": (replace(PLAN, leaves=PLAN.leaves * 2), "CAD5501"),
    "a constant twice": (replace(PLAN, constants=PLAN.constants * 2), "CAD5501"),
    "provenance out of order": (
        replace(PLAN, provenance=replace(PLAN.provenance, environment=(("b", "1"), ("a", "1")))),
        "CAD5501",
    ),
    "numerics twice": (
        replace(PLAN, provenance=replace(PLAN.provenance, numerics=(("a", "1"), ("a", "2")))),
        "CAD5501",
    ),
    "an input in a slot": (key(inputs=(replace(ROW, slot=0),)), "CAD5502"),
    "a form with a stride too few": (replace(PLAN, forms=(*PLAN.forms, replace(ROW, slot=0, strides=(1,)))), "CAD5502"),
    "a leaf form without a slot": (replace(PLAN, forms=(*PLAN.forms, ROW)), "CAD5502"),
    "a weight in a blob that is not there": (replace(PLAN, weights=(replace(PLAN.weights[0], blob=2),)), "CAD5503"),
    "a weight in a blob of another size": (
        replace(PLAN, weights=(replace(PLAN.weights[0], sizes=(3,)),)),
        "CAD5503",
    ),
    "a weight in a blob with another content": (
        replace(PLAN, weights=(replace(PLAN.weights[0], blob=1),)),
        "CAD5503",
    ),
    "a constant of another size": (replace(PLAN, constants=(replace(PLAN.constants[0], size_bytes=8),)), "CAD5503"),
    "weights from nowhere": (replace(example(embed=False), weights_file=None), "CAD5503"),
    "a weights file without a name": (replace(example(embed=False), weights_file="../"), "CAD5503"),
    "a state that names no leaf": (key(state=((1, 0),)), "CAD5504"),
    "a state that names no form": (key(state=((0, 4),)), "CAD5504"),
    "writes twice": (capture(writes=((0, 1), (0, 1))), "CAD5504"),
    "an offset too few": (capture(input_offsets=()), "CAD5505"),
    "an output too many": (capture(outputs=(ROW, ROW)), "CAD5505"),
    "a leaf that the tape does not read": (key(state=()), "CAD5505"),
    "a leaf that the tape does not write": (capture(writes=()), "CAD5505"),
    "an output of another dtype": (capture(outputs=(replace(ROW, dtype="int32"),)), "CAD5506"),
    "an input with other strides": (key(inputs=(replace(ROW, strides=(4, 1, 1)),)), "CAD5506"),
    "an input at another offset": (key(inputs=(replace(ROW, offset=1),)), "CAD5506"),
    "a leaf of another length": (key(state=((0, 1),)), "CAD5506"),
    "a literal for a tensor": (key(inputs=(Literal("bool", "true"),)), "CAD5506"),
    "a CUDA part in a CPU plan": (replace(PLAN, cuda=CUDA.cuda), "CAD5507"),
    "no tapes at all": (replace(PLAN, tapes=()), "CAD5504"),
    "no start": (replace(PLAN, init=9), "CAD5301"),
    "no nodes": (replace(PLAN, nodes=(), transitions=()), "CAD5301"),
    "a stage that repeats without end": (
        replace(
            PLAN,
            program=replace(PLAN.program, stages=(replace(PLAN.program.stages[0], repeat=("i", 2**60)),)),
        ),
        "CAD5307",
    ),
    "events that nobody could go through": (
        replace(PLAN, program=replace(PLAN.program, events=(*PLAN.program.events, NEVER))),
        "CAD5309",
    ),
    "a push without a row": (replace(PLAN, transitions=PLAN.transitions[1:]), "CAD5303"),
}


@pytest.mark.parametrize("what", REFERENCES)
def test_references(what):
    plan, code = REFERENCES[what]
    assert code in found(lambda: validate(plan))


# The CUDA part.

assert CUDA.cuda is not None
PART = CUDA.cuda
GRAPH = PART.graphs[0]
LAUNCH, FILL, COPY = GRAPH.nodes
assert isinstance(LAUNCH, KernelNode)
assert isinstance(FILL, MemsetNode)
assert isinstance(COPY, MemcpyNode)
END = CUDA.sections[-1].offset + CUDA.sections[-1].size_bytes


def part(**changes: object) -> Plan:
    return replace(CUDA, cuda=replace(PART, **changes))  # type: ignore[arg-type]


def graph(**changes: object) -> Plan:
    return part(graphs=(replace(GRAPH, **changes), *PART.graphs[1:]))  # type: ignore[arg-type]


def launch(**changes: object) -> Plan:
    return graph(nodes=(LAUNCH._replace(**changes), FILL, COPY))  # type: ignore[arg-type]


def fill(**changes: object) -> Plan:
    return graph(nodes=(LAUNCH, FILL._replace(**changes), COPY))  # type: ignore[arg-type]


def copy(**changes: object) -> Plan:
    return graph(nodes=(LAUNCH, FILL, COPY._replace(**changes)))  # type: ignore[arg-type]


def pointer(number: int, **changes: int) -> Plan:
    entries = list(GRAPH.relocations)
    entries[number] = entries[number]._replace(**changes)
    return graph(relocations=tuple(entries))


SECTIONS = {section.name: section for section in CUDA.sections}
STATE = SECTIONS["state"].offset
*COMMON, LIBRARY = CUDA.sections
ROWS = Section("rows", LIBRARY.offset, 512, 512, "by hand")
LAUNCHED = tuple(map(Launch, range(len(PART.graphs))))


def rows(*launches: Launch) -> Plan:
    """The plan with a section of rows, its first captures launched in other ways."""
    plan = part(launches=(*launches, *LAUNCHED[len(launches) :]))
    return replace(plan, sections=(*COMMON, ROWS, replace(LIBRARY, offset=LIBRARY.offset + ROWS.size_bytes)))


MOVED = Launch(0, (Move(ROWS.offset, STATE, 16),), (Move(STATE, ROWS.offset, 16),))
OVERLAP = (Move(ROWS.offset, STATE, 16), Move(ROWS.offset + 8, STATE, 16))

GRAPHS = {
    "a launch too few": (part(launches=(MOVED, *LAUNCHED[2:])), "CAD5701"),
    "a graph that nothing launches": (rows(MOVED, Launch(0)), "CAD5701"),
    "a move without rows": (part(launches=(MOVED, *LAUNCHED[1:])), "CAD5708"),
    "a move of nothing": (rows(Launch(0, (Move(ROWS.offset, STATE, 0),))), "CAD5708"),
    "a move into the weights": (rows(Launch(0, (Move(0, STATE, 16),))), "CAD5708"),
    "a move behind the rows": (rows(Launch(0, (Move(ROWS.offset + 504, STATE, 16),))), "CAD5708"),
    "a move out of scratch": (rows(Launch(0, (Move(ROWS.offset, SECTIONS["scratch"].offset, 16),))), "CAD5708"),
    "rows that come back to a weight": (rows(Launch(0, (), (Move(0, ROWS.offset, 16),))), "CAD5708"),
    "moves over each other": (rows(Launch(0, OVERLAP)), "CAD5708"),
    "a graph too many": (part(graphs=(*PART.graphs, GRAPH)), "CAD5701"),
    "a pointer behind the arena": (pointer(0, offset=END + 1), "CAD5702"),
    "a fill over the end": (pointer(1, offset=END - 8), "CAD5702"),
    "a fill with many rows": (fill(height=2**40), "CAD5702"),
    "a copy from over the end": (pointer(3, offset=END - 8), "CAD5702"),
    "a copy with many slices": (copy(depth=2**40), "CAD5702"),
    "a snapshot behind the arena": (part(snapshots=(replace(PART.snapshots[0], size_bytes=END),)), "CAD5702"),
    "generator words behind the arena": (graph(philox=(END - 8, 4)), "CAD5702"),
    "a variable that points outside": (
        part(globals=(DeviceGlobal(0, "t", bytes(8), ((0, END + 1),)),)),
        "CAD5702",
    ),
    "a kernel that is not there": (launch(kernel=1), "CAD5703"),
    "parameters too long": (launch(params=bytes(16)), "CAD5703"),
    "a kernel of no image": (part(kernels=(replace(PART.kernels[0], image=3),)), "CAD5703"),
    "parameters that overlap": (part(kernels=(replace(PART.kernels[0], param_sizes=(12, 4)),)), "CAD5703"),
    "a snapshot of no blob": (part(snapshots=(replace(PART.snapshots[0], blob=77),)), "CAD5703"),
    "a snapshot of another size": (part(snapshots=(replace(PART.snapshots[0], blob=0),)), "CAD5703"),
    "an image that is no cubin": (
        part(images=(replace(PART.images[0], blob=1, sha256=PLAN.constants[0].sha256),)),
        "CAD5703",
    ),
    "an image of another content": (part(images=(replace(PART.images[0], sha256="0" * 64),)), "CAD5503"),
    "a variable of no image": (part(globals=(replace(PART.globals[0], image=1),)), "CAD5703"),
    "an op that is not there": (graph(node_ops=(0, 3, 2)), "CAD5703"),
    "a word over the end of the parameters": (pointer(0, word=5), "CAD5704"),
    "a pointer over the end of a variable": (
        part(globals=(DeviceGlobal(0, "t", bytes(8), ((1, 0),)),)),
        "CAD5704",
    ),
    "a relocation of no node": (pointer(3, node=3), "CAD5704"),
    "a relocation twice": (graph(relocations=(*GRAPH.relocations[:1] * 2, *GRAPH.relocations[1:])), "CAD5704"),
    "relocations that share bytes": (
        graph(relocations=(GRAPH.relocations[0], Relocation(0, 4, 0), *GRAPH.relocations[1:])),
        "CAD5704",
    ),
    "a fill without its address": (graph(relocations=(GRAPH.relocations[0], *GRAPH.relocations[2:])), "CAD5704"),
    "a copy with an address too many": (
        graph(relocations=(*GRAPH.relocations, Relocation(2, 16, 0))),
        "CAD5704",
    ),
    "an edge to itself": (graph(edges=(Edge(1, 1),)), "CAD5705"),
    "an edge to nowhere": (graph(edges=(Edge(0, 3),)), "CAD5705"),
    "an edge twice": (graph(edges=(Edge(0, 1), Edge(0, 1))), "CAD5705"),
    "an empty grid": (launch(grid=(0, 1, 1)), "CAD5706"),
    "a grid too deep": (launch(grid=(1, 1, 65536)), "CAD5706"),
    "too many threads": (launch(block=(512, 4, 1)), "CAD5706"),
    "much shared memory": (launch(shared_bytes=2**30), "CAD5706"),
    "a short attribute": (launch(attributes=((4, b"x"),)), "CAD5706"),
    "a fill of 3-byte elements": (fill(element_bytes=3), "CAD5706"),
    "a fill with a value too wide": (fill(element_bytes=1, value=256), "CAD5706"),
    "a kernel in red": (part(kernels=(replace(PART.kernels[0], name="\x1b[31m"),)), "CAD5707"),
}


@pytest.mark.parametrize("what", GRAPHS)
def test_graphs(what):
    plan, code = GRAPHS[what]
    assert code in found(lambda: validate(plan))


@pytest.mark.parametrize("what", GRAPHS)
@pytest.mark.parametrize("turn", [1, -1])
def test_graphs_by_template(what, turn):
    """A broken graph is found whether it is the first of its template or one of the others."""
    plan, code = GRAPHS[what]
    graphs = plan.cuda.graphs if "generator" in what else [replace(each, philox=None) for each in plan.cuda.graphs]
    graphs = by_template(graphs[::turn])
    assert code in found(lambda: validate(replace(plan, cuda=replace(plan.cuda, graphs=graphs))))


# The manifest and the tables, with right digests.


def manifest(old: bytes, new: bytes) -> bytes:
    return forged(PLAN, manifest=swapped(old, new))


FILES = {
    "a trailing comma": (manifest(b'"init":0,', b'"init":0,,'), "CAD5101"),
    "infinity": (manifest(b'"init":0', b'"init":Infinity'), "CAD5105"),
    "no UTF-8": (manifest(b'"toy"', b'"\xff\xfe"'), "CAD5101"),
    "half a surrogate": (manifest(b'"toy"', b'"\\ud800"'), "CAD5101"),
    "an escape too many": (manifest(b'"toy"', b'"\\u0074oy"'), "CAD5104"),
    "a byte order mark": (forged(PLAN, manifest=lambda data: b"\xef\xbb\xbf" + data), "CAD5101"),
    "something behind": (forged(PLAN, manifest=lambda data: data + b"\n"), "CAD5104"),
    "nothing at all": (forged(PLAN, manifest=b""), "CAD5101"),
    "a list": (forged(PLAN, manifest=b"[]"), "CAD5107"),
    "an exponent": (manifest(b'"init":0', b'"init":1e3'), "CAD5105"),
    "a huge number": (manifest(b'"init":0', b'"init":' + b"9" * 5000), "CAD5105"),
    "2 to the 63": (manifest(b'"init":0', b'"init":9223372036854775808'), "CAD5105"),
    "a number below zero": (manifest(b'"init":0', b'"init":-1'), "CAD5108"),
    "a key in another case": (manifest(b'"init":0', b'"Init":0'), "CAD5104"),
    "a missing key": (manifest(b'"init":0,', b""), "CAD5106"),
    "a control character": (manifest(b'"toy"', b'"\\u001b[31m"'), "CAD5108"),
    "text that turns around": (manifest(b'"toy"', '"\u202etoy"'.encode()), "CAD5108"),
    "a very long name": (manifest(b'"toy"', b'"' + b"t" * 5000 + b'"'), "CAD5108"),
    "a digest in capitals": (manifest(b'"spec_sha256":"0', b'"spec_sha256":"A'), "CAD5108"),
    "a fraction that is not reduced": (manifest(b'"25/2"', b'"50/4"'), "CAD5108"),
    "a fraction over zero": (manifest(b'"25/2"', b'"25/0"'), "CAD5108"),
    "an expression with spaces": (manifest(b'"pushed + 1"', b'"pushed  + 1"'), "CAD5108"),
    "an expression with a call": (manifest(b'"pushed + 1"', b'"exit()"'), "CAD5109"),
    "an expression of 100,000 parentheses": (
        manifest(b'"pushed + 1"', b'"' + b"(" * 100_000 + b'"'),
        "CAD5108",
    ),
    "a pair of three": (manifest(b'["width",4]', b'["width",4,4]'), "CAD5108"),
    "an unknown kind of form": (manifest(b'{"tensor":', b'{"sensor":'), "CAD5108"),
    "nodes of half a word": (forged(PLAN, nodes=lambda data: data[:-4]), "CAD5201"),
    "no nodes": (forged(PLAN, nodes=b""), "CAD5201"),
    "a negative number of nodes": (forged(PLAN, nodes=word(0, -1)), "CAD5202"),
    "many nodes": (forged(PLAN, nodes=word(0, 2**62)), "CAD5202"),
    "a length below absent": (forged(PLAN, nodes=word(2, -2)), "CAD5202"),
    "a negative elapsed part": (forged(PLAN, nodes=word(3, -1)), "CAD5202"),
    "an elapsed part over zero": (forged(PLAN, nodes=word(4, 0)), "CAD5203"),
    "an event that is not there": (forged(PLAN, transitions=word(2, 2)), "CAD5202"),
    "many captures": (forged(PLAN, transitions=word(4, 2**62)), "CAD5202"),
    "a capture that is not there": (forged(PLAN, transitions=word(5, 4)), "CAD5202"),
    "a transition to nowhere": (forged(PLAN, transitions=word(3, 4)), "CAD5202"),
    "tapes that end early": (forged(PLAN, tapes=lambda data: data[:-8]), "CAD5202"),
    "tapes that go on": (forged(PLAN, tapes=lambda data: data + bytes(8)), "CAD5201"),
    "a string of 2 to the 62": (forged(PLAN, tapes=word(1, 2**62)), "CAD5202"),
    "a tape twice": (forged(replace(PLAN, tapes=PLAN.tapes)), ""),
}


@pytest.mark.parametrize("what", FILES)
def test_files(what):
    data, code = FILES[what]
    assert found(lambda: read_plan(data, decompress=None)) == ({code} if code else set())


def test_sections_in_another_order_are_refused():
    parts = sections(PLAN)
    data = join(parts)
    names = list(parts)
    assert data.index(names[0].encode()) < data.index(names[1].encode())
    swap = data.replace(names[1].encode().ljust(16, b"\0"), b"X" * 16, 1)
    assert found(lambda: read_plan(swap, decompress=None)) == {"CAD5007"}


def test_internal_events_without_end_do_not_keep_the_checker_busy(monkeypatch):
    monkeypatch.setattr(closure, "MAX_WORK", 1000)
    spin = Event("spin", internal=True, when=parse("pushed < 1000"), effects=(("pushed", parse("pushed + 1")),))
    plan = replace(PLAN, program=replace(PLAN.program, events=(*PLAN.program.events, spin)))
    errors = list(closure.closure_errors(plan))
    assert errors[-1].code == "CAD5309"
    assert errors[-1].what == "the events of the timeline go on for too long"
