"""From recordings to a part: offsets, what captures share, and a thousand keys."""

import time

from cadence_runtime.format.cuda import CudaPart, KernelNode, Launch, Relocation
from cadence_runtime.format.plan import Section
from cadence_runtime.format.templates import Graphs
from cadencec.arena.planner import Packing
from cadencec.targets.cuda.entry import Summary
from cadencec.targets.cuda.finish import Captured, Library, _scratch, _scratch_of, kernels_bytes
from cadencec.targets.cuda.part import PartBuilder, PlacedRecording
from cadencec.targets.cuda.placement import SCRATCH
from cadencec.targets.cuda.recording import CudaRecording, IdleBuffer, ScratchBuffer
from tests.format.cubins import cubin
from tests.targets.cuda.recordings import DIGEST, IMAGE, IMAGES, TAPE, recording

LIBRARY_AT = 1 << 20
SLOTS, SCRATCH_AT = (0x100, 0x200), {SCRATCH: 0x1000, SCRATCH + 1: 0x1200}


def built(*recordings: CudaRecording) -> tuple[CudaPart, Library]:
    library = Library(LIBRARY_AT, [b"a weight"])
    builder = PartBuilder(IMAGES.__getitem__, lambda image: "PyTorch", library.add_blob, library.reserve)
    for one in recordings:
        builder.add(PlacedRecording(one, TAPE, SLOTS, SCRATCH_AT))
    return builder.finish(0x6F00_0000_0000, (9, 0), 13000, tuple(map(Launch, range(len(recordings))))), library


def test_pointers_become_arena_offsets() -> None:
    part, library = built(recording(launches=4))
    (graph,) = part.graphs
    assert graph.relocations == (
        Relocation(0, 0, 0x1000 + 8),
        Relocation(1, 0, LIBRARY_AT + 8),
        Relocation(2, 0, LIBRARY_AT + 256 + 8),
        Relocation(3, 0, 0x100 + 8),
        Relocation(4, 0, 0x1200),
        Relocation(5, 0, 0x200),
        Relocation(5, 8, 0x100 + 4),
    )
    assert graph.philox == (LIBRARY_AT + 512, 4)
    assert library.blobs == [b"a weight", b"a table in device memory", IMAGE]
    assert [(s.offset, s.size_bytes, s.blob) for s in part.snapshots] == [
        (LIBRARY_AT, 16, None),
        (LIBRARY_AT + 256, 24, 1),
    ]
    (variable,) = part.globals
    assert variable.pointers == ((0, LIBRARY_AT + 256),)
    (image,), (kernel,) = part.images, part.kernels
    assert (image.sha256, image.blob, image.library) == (DIGEST, 2, "PyTorch")
    assert kernel.attributes == ((8, 65536),)  # a carveout of -1 is what every function starts with


def test_a_second_key_costs_its_differences() -> None:
    part, library = built(recording(1), recording(1), recording(5))
    one, other, third = part.graphs
    assert one == other
    assert [node for node in third.nodes if isinstance(node, KernelNode)] != list(one.nodes[:2])
    assert one.nodes[2:] == third.nodes[2:]
    assert isinstance(part.graphs, Graphs)
    (family,) = part.graphs.families
    assert (len(family.rows), len(family.places)) == (2 * len(family.places), 2)
    assert (len(part.images), len(part.kernels), len(part.snapshots), len(library.blobs)) == (1, 1, 2, 3)


def test_the_memory_of_kernels_is_that_of_the_first_or_of_the_local_memory_of_all_threads() -> None:
    part, _ = built(recording(1))
    name = part.kernels[0].name
    page = 2 << 20
    for local, expected in ((None, 90 << 20), ({name: 344}, 90 << 20), ({"other": 9999}, 90 << 20)):
        assert kernels_bytes(part, image_of(part, local), 270336) == expected + page
    assert kernels_bytes(part, image_of(part, {"other": 1, name: 1000}), 270336) == -(-270336000 // page) * page + page


def image_of(part: CudaPart, local: dict[str, int] | None) -> dict[int, bytes]:
    """The blobs with an image whose kernels take so much local memory."""
    return {part.images[0].blob: cubin({part.kernels[0].name: ()}, local)}


def test_what_is_not_used_lies_in_scratch() -> None:
    graph = Captured(TAPE, Summary((ScratchBuffer(SCRATCH, 512, 0, 1),), (IdleBuffer(7, 4096),)))
    packing = Packing((0,), 512, 512, "start")
    assert _scratch_of(graph, packing, 1 << 20) == {SCRATCH: 1 << 20, 7: 1 << 20}
    assert _scratch(256, [packing], 4096) == Section("scratch", 256, 4096, 4096, "start")
    assert _scratch(256, [packing], 0).size_bytes == 512


def test_a_thousand_keys_take_seconds() -> None:
    keys = [recording(index % 7, launches=50) for index in range(1000)]
    start = time.process_time()
    part, _ = built(*keys)
    assert time.process_time() - start < 10
    assert len(part.graphs) == 1000
    assert isinstance(part.graphs, Graphs)
    (family,) = part.graphs.families
    assert len(family.places) <= 2 * 50


def test_a_thousand_blobs_are_found_by_their_content() -> None:
    library = Library(0, [])
    blobs = [index.to_bytes(2, "little") * 50_000 for index in range(1000)]
    start = time.process_time()
    numbers = [library.add_blob(bytes(blob)) for blob in blobs * 2]
    assert time.process_time() - start < 5
    assert numbers == [*range(1000), *range(1000)]
