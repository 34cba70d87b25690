"""Recordings made by hand: what a capture leaves behind, without a device."""

import hashlib

from cadence_runtime.format.cuda import Edge, MemcpyNode, MemsetNode
from cadence_runtime.format.tape import Tape
from cadencec.targets.cuda.globals import LiveGlobal
from cadencec.targets.cuda.nodes import RawKernel
from cadencec.targets.cuda.placement import FOREIGN, LIBRARY, SCRATCH
from cadencec.targets.cuda.recording import CudaRecording, OutsideBuffer, Philox, ScratchBuffer
from cadencec.targets.cuda.relocate import FreeGraph, FreeKernel, FreeNode, Pointer
from tests.format.cubins import cubin

IMAGE = cubin({"scale": ((0, 8), (8, 4))})
DIGEST = hashlib.sha256(IMAGE).hexdigest()
IMAGES = {DIGEST: IMAGE}
TAPE = Tape("step", (), (), (), (), (), ())


def launch(value: int) -> FreeKernel:
    params = bytes(8) + value.to_bytes(4, "little")
    raw = RawKernel(
        "scale", None, (2, 1, 1), (64, 1, 1), 16, (0, 8), (8, 4), params, ((4, b"\1" * 64),), ((8, 65536), (9, -1))
    )
    return FreeKernel(raw, params)


def recording(value: int = 1, launches: int = 2) -> CudaRecording:
    """Return launches, a fill and a copy, in a row; every kind of buffer is pointed to."""
    nodes: list[FreeNode] = [launch(value + index) for index in range(launches)]
    nodes += [MemsetNode(0, 7, 1, 64, 1), MemcpyNode(32, 1, 1, 0, 0, 0, 0)]
    buffers = [SCRATCH, LIBRARY, FOREIGN, 0]
    pointers = [Pointer(index, 0, buffers[index % 4], 8) for index in range(launches)]
    pointers += [Pointer(launches, 0, SCRATCH + 1, 0), Pointer(launches + 1, 0, 1, 0), Pointer(launches + 1, 8, 0, 4)]
    return CudaRecording(
        graph=FreeGraph(tuple(nodes), tuple(pointers), tuple(Edge(i, i + 1) for i in range(len(nodes) - 1))),
        ops=tuple(0 for _ in nodes),
        scratch=(ScratchBuffer(SCRATCH, 512, 0, launches), ScratchBuffer(SCRATCH + 1, 64, launches, launches + 1)),
        outside=(OutsideBuffer(LIBRARY, bytes(16)), OutsideBuffer(FOREIGN, b"a table in device memory")),
        images={"scale": DIGEST},
        globals=(LiveGlobal(DIGEST, "lut", bytes(8), ((0, (FOREIGN, 0)),)),),
        philox=Philox(SCRATCH + 2, SCRATCH + 3, 4),
    )
