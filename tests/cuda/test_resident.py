"""Loading a plan: what is done in what order, where pointers end up, and that a failed load gives back all it took."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cadence_runtime.cuda.driver import driver_error
from cadence_runtime.cuda.resident import reside
from cadence_runtime.errors import DeviceError, IncompatibleError
from cadence_runtime.format.cuda import (
    CudaPart,
    DeviceGlobal,
    Graph,
    Kernel,
    KernelImage,
    KernelNode,
    Relocation,
    Snapshot,
)
from cadence_runtime.format.plan import Section
from tests.cuda.fake_driver import FakeDriver

BASE = 0x6F00_0000_0000
KERNEL = Kernel(0, "scale", (0,), (8,), ((8, 65536),))
NODE = KernelNode(0, (1, 1, 1), (32, 1, 1), 0, bytes(8), ())
PART = CudaPart(
    base=BASE,
    compute_capability=(9, 0),
    driver=13000,
    images=(KernelImage("ab" * 32, 0, "PyTorch"),),
    globals=(DeviceGlobal(0, "lut", bytes(16), ((8, 0x400),)),),
    kernels=(KERNEL,),
    graphs=(Graph((NODE,), (Relocation(0, 0, 0x100),), (), ("aten::mul",), (0,)),),
    snapshots=(Snapshot("library.0", 0x400, 16, 1), Snapshot("library.1", 0x500, 16, None)),
)


def plan() -> Any:
    """Return the fields of a plan that loading looks at."""
    return SimpleNamespace(
        sections=(
            Section("weights", 0, 256, 256, ""),
            Section("constants", 256, 0, 0, ""),
            Section("library", 1024, 512, 512, ""),
        ),
        weights=(SimpleNamespace(name="w", offset=0, blob=None),),
        constants=(),
        captures=(SimpleNamespace(key=SimpleNamespace(stage="step")),) * 3,
        blobs=(b"cubin of the test", b"table of 16 byte"),
        provenance=SimpleNamespace(environment=(("gpu.kernels.bytes", "4096"),)),
    )


def driver(**options: Any) -> FakeDriver:
    made = FakeDriver(layouts={"scale": ((0, 8),)}, **options)
    made.global_address = lambda library, name: (made._note("global_address", name), (0x9000, 16))[1]  # type: ignore[method-assign]
    made.memory_at[0x9000] = bytearray(16)
    return made


def weights(name: str) -> Iterator[memoryview]:
    """The bytes of a weight in two pieces, the first of which is overwritten when the second comes."""
    piece = bytearray(name.encode() * 4)
    yield memoryview(piece)
    piece[:] = name.upper().encode() * 4
    yield memoryview(piece)


def phases(device: FakeDriver) -> list[set[str]]:
    """Return the calls of a load, those that may come side by side as one set."""
    side = {"use", "upload", "synchronize"}, {"use", "load_library"}
    found: list[set[str]] = []
    for name, *_ in device.calls:
        if found and any({name} | found[-1] <= each for each in side):
            found[-1].add(name)
        else:
            found.append({name})
    return found


def test_the_order_of_a_load() -> None:
    device = driver()
    reside(device, plan(), PART, weights)
    assert phases(device) == [
        {"reserve"},
        {"new_stream"},  # of the plan
        {"new_stream"},  # of the uploads
        {"new_stream"},
        {"use", "upload", "synchronize"},
        {"destroy_stream"},
        {"destroy_stream"},
        {"fill"},
        {"use", "load_library"},
        {"global_address"},
        {"upload"},
        {"function"},
        {"param_info"},
        {"set_attribute"},
    ]
    assert device.memory_at[BASE][:8] == b"wwwwWWWW"
    assert device.memory_at[BASE][0x400:0x410] == b"table of 16 byte"


MANY = 40


def many() -> Any:
    """A plan with many weights and as many images."""
    found = plan()
    found.weights = tuple(SimpleNamespace(name=f"{index:02}", offset=16 * index, blob=None) for index in range(MANY))
    found.sections = (*found.sections[:2], Section("library", 1024, 1024, 1024, ""))
    return found


IMAGES = tuple(KernelImage(f"{index:02}" * 32, 0, "PyTorch") for index in range(MANY))


def test_many_weights_and_images_all_arrive() -> None:
    device = driver()
    resident = reside(device, many(), replace(PART, images=IMAGES), weights)
    expected = b"".join(f"{index:02}".encode() * 8 for index in range(MANY))
    assert device.memory_at[BASE][: len(expected)] == expected
    assert (count(device, "new_stream"), count(device, "destroy_stream")) == (5, 4)
    assert count(device, "load_library") == MANY
    resident.close()
    assert device.live == []


class Refusing(FakeDriver):
    """Refuses weights from the eighth on, the eighth last."""

    def upload(self, address: int, source: int, size: int, stream: object) -> None:
        if address == BASE + 16 * 7:
            time.sleep(0.05)
        if address >= BASE + 16 * 7:
            raise driver_error("upload", "CUDA_ERROR_FAKE")
        super().upload(address, source, size, stream)


def test_the_first_of_many_weights_that_fail_is_named_and_all_is_given_back() -> None:
    device = Refusing(layouts={"scale": ((0, 8),)})
    with pytest.raises(DeviceError) as caught:
        reside(device, many(), PART, weights)
    assert caught.value.at == "weight `07`"
    assert device.live == []


def test_a_weight_that_cannot_be_read_gives_everything_back() -> None:
    def unreadable(name: str) -> Iterator[memoryview]:
        yield memoryview(b"half")
        raise IncompatibleError("CAD6003", "the weights file cannot be read", expected="more", got="the end")

    device = driver()
    with pytest.raises(IncompatibleError, match="CAD6003"):
        reside(device, many(), PART, unreadable)
    assert device.live == []


@pytest.mark.parametrize("taken", [frozenset(), frozenset([BASE])])
def test_device_variables_and_launches_point_into_the_arena_wherever_it_is(taken: frozenset[int]) -> None:
    device = driver(taken=taken)
    resident = reside(device, plan(), PART, weights)
    assert (resident.base == BASE) == (not taken)
    assert device.memory_at[0x9000][8:] == (resident.base + 0x400).to_bytes(8, "little")
    resident.launch(0)
    assert device.param_bytes == [((resident.base + 0x100).to_bytes(8, "little"),)]


def test_an_executable_is_built_and_uploaded_once() -> None:
    device = driver()
    resident = reside(device, plan(), PART, weights)
    resident.launch(0)
    resident.launch(0)
    names = [call[0] for call in device.calls]
    assert (names.count("instantiate"), names.count("prepare"), names.count("launch")) == (1, 1, 2)


def test_closing_gives_back_everything() -> None:
    device = driver()
    resident = reside(device, plan(), PART, weights)
    resident.launch(0)
    resident.close()
    assert device.live == []


@pytest.mark.parametrize("call", ["new_stream", "upload", "fill", "load_library", "function", "set_attribute"])
def test_a_load_that_fails_gives_back_all_it_took(call: str) -> None:
    device = driver(fail=(call, 1))
    with pytest.raises(DeviceError, match="CAD8001"):
        reside(device, plan(), PART, weights)
    assert device.live == []


THREE = replace(PART, graphs=PART.graphs * 3)


def count(device: FakeDriver, name: str) -> int:
    return sum(call[0] == name for call in device.calls)


def test_warming_builds_everything_before_the_first_launch() -> None:
    device = driver()
    resident = reside(device, plan(), THREE, weights)
    resident.warm()
    assert (count(device, "instantiate"), count(device, "prepare"), count(device, "launch")) == (3, 3, 0)
    resident.launch(1)
    assert count(device, "instantiate") == 3


@pytest.mark.parametrize(("call", "run"), [("synchronize", "synchronize"), ("download", "read")])
def test_a_failure_that_shows_late_names_what_ran(call: str, run: str) -> None:
    device = driver()
    resident = reside(device, plan(), THREE, weights)
    resident.launch(0)
    resident.synchronize()
    resident.launch(2)
    resident.launch(1)
    device.fail = (call, 1)
    with pytest.raises(DeviceError) as caught:
        resident.read(0, 8) if run == "read" else resident.synchronize()
    assert str(caught.value) == (
        f"CAD8001: the CUDA driver refused `{call}`\n"
        "  expected: CUDA_SUCCESS\n"
        "  got:      CUDA_ERROR_FAKE\n"
        "  at:       after capture 2 of stage `step`, capture 1 of stage `step`"
    )


@pytest.mark.parametrize(
    ("call", "where"),
    [
        ("reserve", "the arena of 1536 bytes"),
        ("upload", "weight `w`"),
        ("fill", "library memory `library.1`"),
        ("load_library", f"an image of PyTorch, sha256 {'ab' * 6}"),
        ("function", "kernel `scale`"),
        ("set_attribute", "kernel `scale`"),
    ],
)
def test_a_refused_call_names_what_it_was_for(call: str, where: str) -> None:
    with pytest.raises(DeviceError) as caught:
        reside(driver(fail=(call, 1)), plan(), PART, weights)
    assert caught.value.at == where


def test_a_launch_that_is_refused_names_its_capture() -> None:
    device = driver(fail=("add_kernel", 1))
    resident = reside(device, plan(), THREE, weights)
    with pytest.raises(DeviceError) as caught:
        resident.launch(2)
    assert caught.value.at == "capture 2 of stage `step`, node 0, kernel `scale`, aten::mul"


def other_size(device: FakeDriver) -> None:
    device.global_address = lambda library, name: (0x9000, 8)  # type: ignore[method-assign]


def other_layout(device: FakeDriver) -> None:
    device.layouts["scale"] = ((0, 8), (8, 4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            other_size,
            "CAD8003: device variable `lut` has another size than the plan's\n"
            "  expected: 16 bytes\n"
            "  got:      8 bytes",
        ),
        (
            other_layout,
            "CAD8004: kernel `scale` takes other parameters than the plan says\n"
            "  expected: (offset, size) [(0, 8)]\n"
            "  got:      [(0, 8), (8, 4)]\n"
            "  hint:     the plan's image and launches do not belong together: compile it again",
        ),
    ],
)
def test_an_image_that_does_not_fit_its_plan(change: Callable[[FakeDriver], None], message: str) -> None:
    device = driver()
    change(device)
    with pytest.raises(DeviceError) as caught:
        reside(device, plan(), PART, weights)
    assert str(caught.value) == message
    assert device.live == []
