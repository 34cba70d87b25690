"""One way to break a plan for each code: `BREAKS[code]` does it, and what it raises is compared with `messages.txt`."""

import errno
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cadence_runtime.format import graph_families, reader, source, tapes, writer
from cadence_runtime.format.blobs import encode_blobs
from cadence_runtime.format.cuda import CudaPart, Edge, Launch, Move, Relocation
from cadence_runtime.format.file import ALIGNMENT, ZSTD, read_table
from cadence_runtime.format.plan import Plan, Section
from cadence_runtime.format.references import blob_digests
from cadence_runtime.format.tape import Binding, Literal
from cadence_runtime.format.words import pack
from tests.format.forge import forged, moved, redo_header, swapped, with_extents, word
from tests.format.plans import cuda_example, example, template_example

Break = Callable[[], object]
BREAKS: dict[str, Break] = {}
PLAN = example()
DATA = writer.encode_plan(PLAN)
CUDA = cuda_example()
assert CUDA.cuda is not None
GRAPH, IMAGE = CUDA.cuda.graphs[0], CUDA.cuda.images[0]


def breaks(code: str) -> Callable[[Break], Break]:
    def keep(function: Break) -> Break:
        assert code not in BREAKS
        BREAKS[code] = function
        return function

    return keep


def read(data: bytes) -> Plan:
    return reader.read_plan(data, decompress=None)


def write(**changes: object) -> bytes:
    return writer.encode_plan(replace(PLAN, **changes))  # type: ignore[arg-type]


# The container.


@breaks("CAD5001")
def not_a_plan():
    read(b"PK\x03\x04 is another kind of file, a zip archive" + bytes(100))


@breaks("CAD5002")
def line_ends_were_changed():
    read(DATA.replace(b"\r\n", b"\n"))


@breaks("CAD5003")
def cut_short():
    read(DATA[:-100])


@breaks("CAD5004")
def goes_on():
    read(DATA + b"\n")


@breaks("CAD5005")
def newer_format():
    read(DATA[:8] + b"\x02\x00\x01\x00" + DATA[12:])


@breaks("CAD5006")
def reserved_bytes():
    read(redo_header(DATA, lambda head: head.__setitem__(24, 1)))


@breaks("CAD5007")
def a_flipped_bit():
    read(DATA[:700] + bytes([DATA[700] ^ 1]) + DATA[701:])


@breaks("CAD5008")
def a_gap_between_sections():
    read(with_extents(DATA, nodes=lambda extent: moved(extent, ALIGNMENT)))


@breaks("CAD5009")
def unknown_codec():
    read(with_extents(DATA, tapes=lambda extent: replace(extent, codec=7)))


@breaks("CAD5010")
def padding_holds_something():
    upper = read_table(source.MemorySource(DATA))["manifest"].upper
    read(DATA[:upper] + b"\x01" + DATA[upper + 1 :])


@breaks("CAD5011")
def a_file_that_shrinks():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "toy.plan")
        path.write_bytes(DATA)
        with source.opened(path) as opened, source.naming(path):
            path.write_bytes(DATA[:100])
            opened.read(0, 200)


@breaks("CAD5012")
def no_zstd_frame():
    read(with_extents(DATA, tapes=lambda extent: replace(extent, codec=ZSTD)))


@breaks("CAD5013")
def a_bomb():
    read(with_extents(DATA, tapes=lambda extent: replace(extent, codec=ZSTD, raw_bytes=2**62)))


@breaks("CAD5014")
def half_a_row():
    read(forged(PLAN, blob_table=lambda table: table[:-1]))


@breaks("CAD5015")
def a_blob_twice():
    twice = replace(PLAN, blobs=(*PLAN.blobs, PLAN.blobs[0]))
    table, pieces = encode_blobs(twice.blobs, blob_digests(twice), None)
    read(forged(PLAN, blob_table=table, blobs=b"".join(pieces)))


@breaks("CAD5016")
def a_blob_under_another_name():
    read(forged(PLAN, blob_table=lambda table: bytes(32) + table[32:]))


@breaks("CAD5017")
def no_memory():
    kept = reader.decode_manifest

    def fail(data: bytes) -> object:
        raise MemoryError

    reader.decode_manifest = fail  # type: ignore[assignment]
    try:
        read(DATA)
    finally:
        reader.decode_manifest = kept


@breaks("CAD5018")
def a_huge_manifest():
    read(with_extents(DATA, manifest=lambda extent: replace(extent, codec=ZSTD, raw_bytes=2**29)))


# The manifest.


@breaks("CAD5101")
def no_json():
    read(forged(PLAN, manifest=swapped(b'"captures":[', b'"captures":[,')))


@breaks("CAD5102")
def a_key_twice():
    read(forged(PLAN, manifest=swapped(b'"init":0', b'"init":0,"init":0')))


@breaks("CAD5103")
def nested():
    read(forged(PLAN, manifest=b"[" * 100_000 + b"]" * 100_000))


@breaks("CAD5104")
def a_space():
    read(forged(PLAN, manifest=swapped(b'"init":0', b'"init": 0')))


@breaks("CAD5105")
def a_float():
    read(forged(PLAN, manifest=swapped(b'"init":0', b'"init":0.5')))


@breaks("CAD5106")
def an_unknown_key():
    read(forged(PLAN, manifest=swapped(b'"init":0', b'"imit":0')))


@breaks("CAD5107")
def a_bool_for_an_int():
    read(forged(PLAN, manifest=swapped(b'"init":0', b'"init":true')))


@breaks("CAD5108")
def an_unknown_target():
    read(forged(PLAN, manifest=swapped(b'"target":"cpu"', b'"target":"tpu"')))


@breaks("CAD5109")
def no_expression():
    read(forged(PLAN, manifest=swapped(b'"pushed + 1"', b'"pushed(1)"')))


# Tables and tapes.


@breaks("CAD5201")
def too_many_words():
    read(forged(PLAN, nodes=lambda data: data + bytes(8)))


@breaks("CAD5202")
def a_form_that_is_not_there():
    read(forged(PLAN, nodes=word(5, 99)))


@breaks("CAD5203")
def no_lowest_terms():
    read(forged(PLAN, nodes=word(4, 2)))


@breaks("CAD5204")
def never_used():
    read(forged(PLAN, tapes=pack([1, 1, ord("a"), 0, 0, 0, 0, 0])))


@breaks("CAD5205")
def no_utf8():
    read(forged(PLAN, tapes=pack([1, 1, 0xFF, 0, 0, 0, 0, 0])))


def with_tape(number: int, **changes: object) -> bytes:
    tapes = list(PLAN.tapes)
    tapes[number] = replace(tapes[number], **changes)  # type: ignore[arg-type]
    return write(tapes=tuple(tapes))


def with_op(number: int, **changes: object) -> bytes:
    """Change an op of tape 1."""
    ops = list(PLAN.tapes[1].ops)
    ops[number] = replace(ops[number], **changes)  # type: ignore[arg-type]
    return with_tape(1, ops=tuple(ops))


@breaks("CAD5206")
def an_op_name():
    with_op(0, name="os.system")


@breaks("CAD5207")
def a_literal():
    with_op(1, kwargs=(("alpha", Literal("int", "007")),))


@breaks("CAD5208")
def kwargs_out_of_order():
    with_op(1, kwargs=(("b", Literal("none", "")), ("alpha", Literal("int", "1"))))


@breaks("CAD5209")
def a_view_behind_its_storage():
    views = list(PLAN.tapes[1].ops[0].args)
    views[1] = replace(views[1], offset=1)  # type: ignore[type-var]
    with_op(0, args=tuple(views))


@breaks("CAD5210")
def an_undeclared_read():
    with_op(0, reads=(0,))


@breaks("CAD5211")
def a_storage_that_is_not_there():
    with_op(0, reads=(0, 2, 9))


@breaks("CAD5212")
def draws_in_secret():
    with_op(0, draws=True)


@breaks("CAD5213")
def writes_to_a_weight():
    with_op(0, writes=(2, 4))


@breaks("CAD5214")
def an_input_on_scratch():
    tape = PLAN.tapes[1]
    value = replace(tape.inputs[0].value, storage=4)  # type: ignore[type-var]
    with_tape(1, inputs=(Binding("x", value),))


@breaks("CAD5215")
def control_characters():
    with_op(0, source="model.py:\x1b[31m7")


@breaks("CAD5216")
def endless_tapes():
    kept = tapes.MAX_WRITTEN_OUT
    tapes.MAX_WRITTEN_OUT = 60
    try:
        read(DATA)
    finally:
        tapes.MAX_WRITTEN_OUT = kept


# The arena.


def with_section(name: str, **changes: object) -> bytes:
    sections = (replace(s, **changes) if s.name == name else s for s in PLAN.sections)  # type: ignore[arg-type]
    return write(sections=tuple(sections))


@breaks("CAD5401")
def sections_overlap():
    with_section("io", offset=0)


@breaks("CAD5402")
def a_weight_out_of_line():
    write(weights=(replace(PLAN.weights[0], offset=64),), sections=widened("weights"))


def widened(name: str) -> tuple[Section, ...]:
    """The sections, this one 4096 bytes longer and those behind it moved."""
    made, shift = [], 0
    for section in PLAN.sections:
        grown = replace(section, offset=section.offset + shift)
        if section.name == name:
            grown, shift = replace(grown, size_bytes=section.size_bytes + 4096), 4096
        made.append(grown)
    return tuple(made)


@breaks("CAD5403")
def a_constant_outside():
    write(constants=(replace(PLAN.constants[0], offset=256),))


@breaks("CAD5404")
def two_live_storages_share_bytes():
    capture = PLAN.captures[1]
    write(captures=(PLAN.captures[0], replace(capture, scratch=((4, 0), (5, 0), (6, 256))), *PLAN.captures[2:]))


@breaks("CAD5405")
def a_slot_too_small():
    write(leaves=(replace(PLAN.leaves[0], slot_bytes=48),))


@breaks("CAD5406")
def an_unknown_weight():
    write(weights=(replace(PLAN.weights[0], name="v"),))


@breaks("CAD5407")
def a_leaf_as_scratch():
    capture = PLAN.captures[1]
    write(captures=(PLAN.captures[0], replace(capture, scratch=((1, 0),)), *PLAN.captures[2:]))


# What the parts say of one another.


@breaks("CAD5501")
def a_weight_twice():
    write(weights=PLAN.weights * 2)


@breaks("CAD5502")
def a_form_in_no_slot():
    write(forms=(*PLAN.forms[:-1], replace(PLAN.forms[-1], slot=5)))  # type: ignore[type-var]


@breaks("CAD5503")
def a_constant_with_other_bytes():
    write(constants=(replace(PLAN.constants[0], blob=0),))


@breaks("CAD5504")
def no_tape():
    write(captures=(replace(PLAN.captures[0], tape=17), *PLAN.captures[1:]))


@breaks("CAD5505")
def a_tape_of_another_stage():
    write(captures=(replace(PLAN.captures[0], tape=1), *PLAN.captures[1:]))


@breaks("CAD5506")
def an_input_of_another_shape():
    key = replace(PLAN.captures[1].key, inputs=(replace(PLAN.captures[1].outputs[0], sizes=(1, 2, 4)),))  # type: ignore[type-var]
    write(captures=(PLAN.captures[0], replace(PLAN.captures[1], key=key), *PLAN.captures[2:]))


@breaks("CAD5507")
def no_cuda_part():
    write(target="cuda")


# The CUDA part.


def with_part(**changes: object) -> bytes:
    return write_cuda(replace(CUDA.cuda, **changes))  # type: ignore[type-var]


def write_cuda(part: CudaPart) -> bytes:
    return writer.encode_plan(replace(CUDA, cuda=part))


def with_graph(**changes: object) -> bytes:
    assert CUDA.cuda is not None
    first, *others = CUDA.cuda.graphs
    return with_part(graphs=(replace(first, **changes), *others))  # type: ignore[arg-type]


@breaks("CAD5701")
def a_capture_without_a_graph():
    with_part(graphs=())


@breaks("CAD5708")
def a_move_into_weights():
    with_part(launches=(Launch(0, (Move(0, 256, 16),)), *map(Launch, range(1, 4))))


@breaks("CAD5709")
def endless_graphs():
    data = writer.encode_plan(template_example())
    kept = graph_families.MAX_WRITTEN_OUT
    graph_families.MAX_WRITTEN_OUT = 200
    try:
        read(data)
    finally:
        graph_families.MAX_WRITTEN_OUT = kept


@breaks("CAD5702")
def a_pointer_outside():
    with_graph(relocations=(Relocation(0, 0, 1 << 30), *GRAPH.relocations[1:]))


@breaks("CAD5703")
def an_image_that_is_none():
    with_part(images=(replace(IMAGE, blob=0, sha256=PLAN.weights[0].sha256),))


@breaks("CAD5704")
def a_relocation_behind_the_parameters():
    with_graph(relocations=(Relocation(0, 9, 0), *GRAPH.relocations[1:]))


@breaks("CAD5705")
def a_cycle():
    with_graph(edges=(Edge(0, 1), Edge(1, 0)))


@breaks("CAD5706")
def a_block_too_large():
    launch, *others = GRAPH.nodes
    with_graph(nodes=(launch._replace(block=(1024, 2, 1)), *others))


@breaks("CAD5707")
def a_library_in_red():
    with_part(images=(replace(IMAGE, library="\x1b[31mred"),))


# Files.


@breaks("CAD9201")
def no_file():
    reader.read_plan("nowhere/toy.plan", decompress=None)


@breaks("CAD9202")
def a_folder():
    reader.read_plan("/", decompress=None)


@breaks("CAD9203")
def a_name_with_a_null_byte():
    reader.read_plan("toy\0.plan", decompress=None)


@breaks("CAD9204")
def no_folder():
    writer.write_plan("/nowhere/at/all/toy.plan", PLAN)


@breaks("CAD9205")
def a_full_disk():
    kept = os.write

    def fail(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os.write = fail
    try:
        writer.write_plan("toy.plan", PLAN)
    finally:
        os.write = kept


@breaks("CAD9206")
def stdout_for_a_file():
    writer.write_plan("-", PLAN)


@breaks("CAD9207")
def no_path():
    source.require_path("--weights", "")
