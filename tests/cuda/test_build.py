"""Rebuilding a graph: the exact calls, relocated words, and a clean end when the driver refuses."""

import pytest

from cadence_runtime.cuda.build import Addresses, build
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.cuda import Edge, Graph, Kernel, KernelNode, MemcpyNode, MemsetNode, Relocation
from tests.cuda.fake_driver import FakeDriver

BASE = 0x6F00_0000_0000
KERNEL = Kernel(0, "scale", (0, 8, 12), (8, 4, 12), ())
LAYOUT = {"scale": ((0, 8), (8, 4), (12, 12))}


def launch(params: bytes) -> KernelNode:
    return KernelNode(0, (2, 1, 1), (128, 1, 1), 0, params, ((4, b"\1" * 64),))


def graph() -> Graph:
    plain = bytes(8) + b"\x05\0\0\0" + b"abcd" + bytes(8)  # the last word is not aligned to eight bytes
    return Graph(
        nodes=(
            launch(plain),
            MemsetNode(0, 7, 1, 64, 1),
            MemcpyNode(32, 1, 1, 0, 0, 0, 0),
        ),
        relocations=(
            Relocation(0, 0, 0x100),
            Relocation(0, 16, 0x200),
            Relocation(1, 0, 0x300),
            Relocation(2, 0, 0x400),
            Relocation(2, 8, 0x500),
        ),
        edges=(Edge(0, 1), Edge(1, 2, 1, 0, 1)),
        ops=("aten::mul model.py:3",),
        node_ops=(0, 0, 0),
    )


@pytest.mark.parametrize("base", [BASE, BASE + 0x1234_0000])
def test_every_word_is_relocated_and_nothing_else_changes(base: int) -> None:
    driver = FakeDriver(layouts=LAYOUT)
    assert build(driver, graph(), [KERNEL], ["scale"], Addresses(base, base, 0)) == "executable 1"
    first, second, third = driver.param_bytes[0]
    assert int.from_bytes(first, "little") == base + 0x100
    assert second == b"\x05\0\0\0"
    assert third == b"abcd" + (base + 0x200).to_bytes(8, "little")


def test_what_lanes_share_stands_elsewhere_than_what_a_lane_has_for_itself() -> None:
    driver, own, shared = FakeDriver(layouts=LAYOUT), 0x1000_0000, 0x2000_0000
    addresses = Addresses(own, shared, lent_bytes=0x300)
    build(driver, graph(), [KERNEL], ["scale"], addresses)
    first, _, third = driver.param_bytes[0]
    assert int.from_bytes(first, "little") == addresses.of(0x100) == shared + 0x100
    assert int.from_bytes(third[4:], "little") == shared + 0x200
    assert driver.calls[2][2] == addresses.of(0x300) == own + 0x300
    assert driver.calls[3][2:4] == (own + 0x400, own + 0x500)


def test_the_exact_sequence_of_calls() -> None:
    driver = FakeDriver(layouts=LAYOUT)
    build(driver, graph(), [KERNEL], ["scale"], Addresses(BASE, BASE, 0))
    assert driver.calls == [
        ("new_graph",),
        ("add_kernel", (), "scale", (2, 1, 1), (128, 1, 1), 0, ((4, b"\1" * 64),)),
        ("add_memset", ("node 0",), BASE + 0x300, 7, 64),
        ("add_memcpy", (), BASE + 0x400, BASE + 0x500, 32),
        ("add_edge", "node 1", "node 2", (1, 0, 1)),
        ("instantiate", 3),
    ]


@pytest.mark.parametrize("call", ["add_kernel", "add_memset", "add_memcpy", "add_edge"])
def test_a_refused_node_destroys_the_graph(call: str) -> None:
    driver = FakeDriver(layouts=LAYOUT, fail=(call, 1))
    with pytest.raises(DeviceError) as caught:
        build(driver, graph(), [KERNEL], ["scale"], Addresses(BASE, BASE, 0))
    assert driver.calls[-1] == ("destroy_graph",)
    places = {
        "add_kernel": "\n  at:       node 0, kernel `scale`, aten::mul model.py:3",
        "add_memset": "\n  at:       node 1, a fill, aten::mul model.py:3",
        "add_memcpy": "\n  at:       node 2, a copy, aten::mul model.py:3",
    }
    assert str(caught.value) == (
        f"CAD8001: the CUDA driver refused `{call}`\n  expected: CUDA_SUCCESS\n  got:      CUDA_ERROR_FAKE"
        + places.get(call, "")
    )
