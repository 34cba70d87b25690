"""A small plan that keeps every rule, made by hand: what one stage with a growing cache comes to.

    init                          kv = zeros[1, 1, width]
    step at kv[1, L, width]       y = x * w + c        kv = cat(kv, y)
    turn                          resets by init

`steps` pushes fit between two resets, so there are `steps` keys of the stage.
"""

import hashlib
from dataclasses import replace
from fractions import Fraction

from cadence_runtime.format.blobs import store
from cadence_runtime.format.cuda import (
    CudaPart,
    DeviceGlobal,
    Edge,
    Graph,
    Kernel,
    KernelImage,
    KernelNode,
    MemcpyNode,
    MemsetNode,
    Relocation,
    Snapshot,
)
from cadence_runtime.format.file import Extent
from cadence_runtime.format.plan import (
    INIT,
    Capture,
    Constant,
    Fidelity,
    Key,
    Leaf,
    Node,
    Plan,
    Provenance,
    Section,
    TensorForm,
    Transition,
    Weight,
)
from cadence_runtime.format.tape import ITEM_BYTES, Binding, Literal, Op, Storage, Tape, View
from cadence_runtime.format.templates import by_template
from cadence_runtime.host.expression import parse
from cadence_runtime.host.program import (
    Clock,
    Counter,
    Event,
    EventInput,
    Horizon,
    Program,
    Region,
    Retention,
    Stage,
    StageInput,
)
from cadence_runtime.host.step import enabled, push, start
from tests.format.cubins import cubin

ALIGNMENT = 256


def example(*, steps: int = 3, width: int = 4, dtype: str = "float32", name: str = "toy", embed: bool = True) -> Plan:
    """Return the plan; with `embed` false its weight comes from a file."""
    return _Example(steps, width, dtype, name, embed).plan()


def cuda_example() -> Plan:
    """The plan as one for CUDA: every capture is a launch, a fill and a copy within its scratch."""
    plan = example()
    scratch = next(section for section in plan.sections if section.name == "scratch")
    image = cubin({"_Z3addPfi": ((0, 8), (8, 4))})
    kernel = Kernel(0, "_Z3addPfi", (0, 8), (8, 4), ((8, 49152),))
    launch = KernelNode(0, (2, 1, 1), (128, 1, 1), 0, bytes(8) + b"\x10\0\0\0", ((4, bytes(64)),))
    fill = MemsetNode(16, 0, 4, 4, 1)
    copy = MemcpyNode(16, 1, 1, 16, 1, 16, 1)
    at = scratch.offset
    graph = Graph(
        nodes=(launch, fill, copy),
        relocations=(Relocation(0, 0, at), Relocation(1, 0, at), Relocation(2, 0, at + 256), Relocation(2, 8, at)),
        edges=(Edge(0, 1), Edge(1, 2, 1, 0, 1)),
        ops=("aten::add model.py:7", "aten::zero_ model.py:8", "storing the results"),
        node_ops=(0, 1, 2),
    )
    library = Section("library", at + aligned(scratch.size_bytes), 256, 256, "in a row")
    part = CudaPart(
        base=0x6F00_0000_0000,
        compute_capability=(9, 0),
        driver=13000,
        images=(KernelImage(hashlib.sha256(image).hexdigest(), len(plan.blobs), "toy"),),
        globals=(DeviceGlobal(0, "table", bytes(16), ((8, library.offset),)),),
        kernels=(kernel,),
        graphs=(graph, *(replace(graph, philox=(library.offset, 4)) for _ in plan.captures[1:])),
        snapshots=(Snapshot("library.0", library.offset, 256, None),),
    )
    captures = tuple(replace(capture, scratch=()) for capture in plan.captures)
    sections = (*plan.sections, library)
    return replace(plan, target="cuda", captures=captures, sections=sections, blobs=(*plan.blobs, image), cuda=part)


def template_example() -> Plan:
    """The plan for CUDA with its graphs by template: the first draws nothing, and each of the others has another grid,
    fill and pointer."""
    plan = cuda_example()
    assert plan.cuda is not None
    graphs = [_varied(graph, number) for number, graph in enumerate(plan.cuda.graphs)]
    return replace(plan, cuda=replace(plan.cuda, graphs=by_template(graphs)))


def _varied(graph: Graph, number: int) -> Graph:
    launch, fill, copy = graph.nodes
    assert isinstance(launch, KernelNode)
    assert isinstance(fill, MemsetNode)
    launch = launch._replace(grid=(2 + number, 1, 1), params=bytes(8) + bytes([16 + number, 0, 0, 0]))
    first, *others = graph.relocations
    relocations = (first._replace(offset=first.offset + 16 * number), *others)
    return replace(graph, nodes=(launch, fill._replace(value=number), copy), relocations=relocations)


class _Example:
    def __init__(self, steps: int, width: int, dtype: str, name: str, embed: bool) -> None:
        self.steps, self.width, self.dtype, self.name, self.embed = steps, width, dtype, name, embed
        self.row_bytes = width * ITEM_BYTES[dtype]
        self.weight, self.constant = bytes(i % 251 + 1 for i in range(self.row_bytes)), bytes(self.row_bytes)

    def program(self) -> Program:
        sizes = (parse("1"), parse("1"), parse("width"))
        step = Event(
            "step",
            inputs=(EventInput("x", sizes),),
            advance=("frame", parse("1")),
            run=("step",),
            effects=(("pushed", parse("pushed + 1")),),
            outputs=("y",),
        )
        kv = Region("kv", ("kv",), self.dtype, (1, None, self.width), 1, "frame", 1, Retention("grow", None))
        return Program(
            params=(("width", self.width),),
            clocks=(Clock("frame", Fraction(25, 2)),),
            counters=(Counter("pushed", 0),),
            queues=(),
            regions=(kv,),
            stages=(Stage("step", ("kv",), ("kv",), (StageInput("x", self.dtype),), ("y",)),),
            events=(step, Event("turn", reset=True)),
            horizon=Horizon("events", Fraction(self.steps)),
            cadence_s=Fraction(2, 25),
        )

    def view(self, storage: int, rows: int) -> View:
        return View(storage, self.dtype, (1, rows, self.width), (rows * self.width, self.width, 1), 0)

    def form(self, rows: int, slot: int = -1) -> TensorForm:
        return TensorForm(self.dtype, (1, rows, self.width), (rows * self.width, self.width, 1), slot)

    def init_tape(self) -> Tape:
        size = Literal("int", "1"), Literal("int", "1"), Literal("int", str(self.width))
        zeros = Op(
            "aten::zeros",
            (size,),
            (("dtype", Literal("dtype", self.dtype)), ("pin_memory", Literal("bool", "false"))),
            (self.view(0, 1),),
            (),
            (0,),
            "model.py:3",
        )
        storages = (Storage("scratch", "", self.row_bytes),)
        return Tape(INIT, storages, (), (), (zeros,), (), (Binding("kv", self.view(0, 1)),))

    def step_tape(self, rows: int) -> Tape:
        digest = hashlib.sha256(self.constant).hexdigest()
        storages = (
            Storage("input", "x", self.row_bytes),
            Storage("leaf", "kv", rows * self.row_bytes),
            Storage("weight", "w", self.row_bytes),
            Storage("constant", digest, self.row_bytes),
            Storage("scratch", "", self.row_bytes),
            Storage("scratch", "", self.row_bytes),
            Storage("scratch", "", (rows + 1) * self.row_bytes),
        )
        row = [self.view(index, 1) for index in range(6)]
        old, new = self.view(1, rows), self.view(6, rows + 1)
        alpha = (("alpha", Literal("int", "1")),)
        ops = (
            Op("aten::mul.Tensor", (row[0], row[2]), (), (row[4],), (0, 2), (4,), "model.py:7"),
            Op("aten::add.Tensor", (row[4], row[3]), alpha, (row[5],), (3, 4), (5,), "model.py:7"),
            Op("aten::cat", ((old, row[5]), Literal("int", "1")), (), (new,), (1, 5), (6,), "model.py:8"),
        )
        return Tape(
            "step",
            storages,
            (Binding("x", row[0]),),
            (Binding("kv", old),),
            ops,
            (Binding("y", row[5]),),
            (Binding("kv", new),),
        )

    def capture(self, rows: int) -> Capture:
        """The capture at a length; scratch 4 and 6 share bytes, since 4 has had its last use when 6 comes."""
        key = Key("step", (), (self.form(1),), ((0, rows - 1),))
        room = aligned(self.row_bytes)
        scratch = ((4, room), (5, 0), (6, room))
        return Capture(key, rows, ((0, rows),), (self.form(1),), (0,), (room,), scratch)

    def plan(self) -> Plan:
        lengths = range(1, self.steps + 1)
        init = Capture(Key(INIT, (), (), ()), 0, ((0, 0),), (), (), (), ((0, 0),))
        nodes, transitions = self.timeline()
        longest = (self.steps + 1) * self.row_bytes
        digest = hashlib.sha256(self.weight).hexdigest()
        return Plan(
            target="cpu",
            program=self.program(),
            leaves=(Leaf("kv", "kv", 0, longest),),
            forms=tuple(self.form(rows, 0) for rows in (*lengths, self.steps + 1)),
            tapes=(self.init_tape(), *map(self.step_tape, lengths)),
            captures=(init, *map(self.capture, lengths)),
            nodes=nodes,
            transitions=transitions,
            init=0,
            sections=self.sections(longest),
            weights=(Weight("w", self.dtype, (self.width,), digest, 0, 0 if self.embed else None),),
            weights_file=None if self.embed else "toy.safetensors",
            constants=(Constant(hashlib.sha256(self.constant).hexdigest(), self.row_bytes, 0, int(self.embed)),),
            blobs=(self.weight, self.constant) if self.embed else (self.constant,),
            fidelity=Fidelity(self.steps + 1, 3, 64, 192, ()),
            provenance=Provenance(
                self.name, "toy:build", "0" * 64, "0.1.0", (("threads", "1"), ("torch", "2.13.0")), (), False
            ),
        )

    def sections(self, longest: int) -> tuple[Section, ...]:
        room = aligned(self.row_bytes)
        sizes = {
            "weights": self.row_bytes,
            "constants": self.row_bytes,
            "state": longest,
            "io": 2 * room,
            "scratch": room + aligned(longest),
        }
        made, offset = [], 0
        for name, size in sizes.items():
            made.append(Section(name, offset, size, size, "by hand"))  # type: ignore[arg-type]
            offset += aligned(size)
        return tuple(made)

    def timeline(self) -> tuple[tuple[Node, ...], tuple[Transition, ...]]:
        program = self.program()
        configurations, rows = [start(program)], []
        for source, here in enumerate(configurations):
            for event in enabled(program, here):
                if event == "step" and source == self.steps:
                    continue
                after = push(program, here, event, {})[-1].after
                if after not in configurations:
                    configurations.append(after)
                ran = (source + 1,) if event == "step" else (0,)
                rows.append(Transition(source, ("step", "turn").index(event), (), ran, configurations.index(after)))
        nodes = (Node(each, (each.lengths[0] - 1,)) for each in configurations)
        return tuple(nodes), tuple(rows)


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def stored(data: bytes) -> tuple[bytes, Extent]:
    """Section bytes as the writer stores them raw."""
    return store(data, None)
