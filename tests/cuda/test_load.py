"""`load` and `check` of a CUDA plan on machines that are planted: every reason before anything is allocated."""

import ctypes
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cadence_runtime import check, load
from cadence_runtime.check import open_plan
from cadence_runtime.cuda import driver as door
from cadence_runtime.cuda.compatibility import NODE_BYTES, arena_bytes
from cadence_runtime.cuda.driver import DeviceInfo
from cadence_runtime.errors import CadenceError, DeviceError, ErrorList, IncompatibleError, PlanError, UsageError
from cadence_runtime.format import blobs, reader
from cadence_runtime.format.blobs import fetch
from cadence_runtime.format.file import read_table, unpack_extent
from cadence_runtime.format.graphs import decode_graphs
from cadence_runtime.format.source import opened
from cadence_runtime.live.setup import lanes_for
from cadence_runtime.zstd import decompress
from cadencec.check import check_file, exit_code, render
from tests.cuda.fake_driver import FakeDriver

PLAN = Path(__file__).parents[2] / "plans" / "growing-kv-cat.cuda-sm90.format-1.0.2026-12-01.plan"
CPU_PLAN = PLAN.with_name("growing-kv-cat.cpu.format-1.0.2026-12-01.plan")
NODES = 66
ROOT = Path(__file__).parents[2]
PATHS = f"import sys; sys.path[:0] = {[str(ROOT / 'runtime_stub'), *sys.path]!r}\n"
"""For a process that does without `site`, which would find the runtime where it is installed."""
TAKES = ("reserve", "allocate", "load_library", "new_stream", "upload")


EULER = PLAN.with_name("euler.cuda-sm90.format-1.1.2026-12-01.plan")


def blob_of(path: Path, number: int) -> bytes:
    """Return a blob as it stands in a file, whatever its digest."""
    with opened(path) as source:
        table, section = (read_table(source)[name] for name in ("blob-table", "blobs"))
        rows = fetch(source, table, "the table", decompress)
        extent = unpack_extent(rows[number * 96 + 32 : (number + 1) * 96], "row")
        return source.read(section.offset + extent.offset, extent.size_bytes)


def altered(path: Path, number: int, folder: Path) -> Path:
    """Return a copy of a plan with the last byte of a blob altered."""
    content, stored = path.read_bytes(), blob_of(path, number)
    at = content.rindex(stored) + len(stored) - 1
    made = folder / f"altered-{number}.plan"
    made.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    return made


class Machine:
    """Hands out drivers of one machine, and keeps them."""

    def __init__(self, **options: Any) -> None:
        parts = [part for part in (open_plan(PLAN).cuda, open_plan(EULER).cuda) if part is not None]
        kernels = [kernel for part in parts for kernel in part.kernels]
        self.layouts = {k.name: tuple(zip(k.param_offsets, k.param_sizes, strict=True)) for k in kernels}
        self.options, self.drivers = options, list[FakeDriver]()

    def __call__(self) -> FakeDriver:
        self.drivers.append(FakeDriver(layouts=self.layouts, **self.options))
        return self.drivers[-1]

    def names(self) -> list[str]:
        return [call[0] for driver in self.drivers for call in driver.calls]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Machine:
    made = Machine(**getattr(request, "param", {}))
    monkeypatch.setattr(door, "system_driver", made)
    return made


def test_a_plan_loads_where_everything_fits(machine: Machine) -> None:
    assert check(PLAN).verdict == "ok"
    with load(PLAN, warm=True):
        assert machine.names().count("instantiate") == 14
    assert machine.names().count("open") == machine.names().count("close")
    assert all(driver.live == [] for driver in machine.drivers)


@pytest.mark.parametrize("machine", [{"capability": (8, 0), "version": 12040, "free_bytes": 100}], indirect=True)
def test_every_reason_comes_before_anything_is_allocated(machine: Machine) -> None:
    report = check_file(str(PLAN))
    assert [reason.code for reason in report.reasons] == ["CAD6010", "CAD6011", "CAD6012"]
    assert (report.verdict, exit_code(report)) == ("incompatible", 3)
    assert "sm_90" in render(report)
    with pytest.raises(ErrorList) as caught:
        load(PLAN)
    assert [reason.code for reason in caught.value.errors] == ["CAD6010", "CAD6011", "CAD6012"]
    assert not set(machine.names()) & set(TAKES)


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ({"capability": (10, 0)}, "CAD6010"),
        ({"version": 12080}, "CAD6011"),
        ({"free_bytes": 4096}, "CAD6012"),
    ],
    indirect=["machine"],
)
def test_one_mismatch_is_one_reason(machine: Machine, code: str) -> None:
    with pytest.raises(IncompatibleError) as caught:
        load(PLAN)
    assert caught.value.code == code
    assert not set(machine.names()) & set(TAKES)


FREE = arena_bytes(open_plan(PLAN)) + NODE_BYTES * 20


@pytest.mark.parametrize("machine", [{"free_bytes": FREE}], indirect=True)
def test_executables_that_do_not_all_fit_are_a_remark(machine: Machine) -> None:
    report = check(PLAN)
    assert report.verdict == "suboptimal"
    assert report.remarks == (
        f"the executables of all captures take {NODE_BYTES * NODES} bytes, and arena and kernels leave"
        f" {NODE_BYTES * 20}: give `load` a budget below that. It takes {NODE_BYTES * 11} bytes at least, and"
        f" {NODE_BYTES * 11} to have ready whatever a session can run next",
    )
    with load(PLAN, warm=True, budget_bytes=NODE_BYTES * 20):
        assert 0 < machine.names().count("instantiate") < 14


def test_a_machine_without_a_driver_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "LIBRARY", "libnone.so.1")
    (reason,) = check(PLAN).reasons
    assert str(reason) == (
        "CAD8002: no CUDA driver on this machine\n"
        "  expected: libnone.so.1\n"
        "  got:      libnone.so.1: cannot open shared object file: No such file or directory\n"
        "  hint:     install the NVIDIA driver, or use the cpu target"
    )
    with pytest.raises(DeviceError) as caught:
        load(PLAN)
    assert str(caught.value) == str(reason)


def test_a_machine_without_the_bindings_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cadence_runtime.cuda.bindings", None)
    (reason,) = check(PLAN).reasons
    assert str(reason).replace("cadence_runtime.cuda.bindings", "cuda") == (
        "CAD8005: the package that speaks to the CUDA driver is not installed\n"
        "  expected: cuda-bindings\n"
        "  got:      no module `cuda`\n"
        "  hint:     pip install 'cadence-runtime[cuda]'"
    )


@pytest.mark.parametrize("machine", [{"fail": ("load_library", 3)}], indirect=True)
def test_a_load_that_fails_gives_back_all_it_took(machine: Machine) -> None:
    with pytest.raises(DeviceError, match="CAD8001"):
        load(PLAN)
    assert all(driver.live == [] for driver in machine.drivers)
    assert machine.names().count("open") == machine.names().count("close")


def test_the_context_is_made_while_the_plan_is_read(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    decoding, opened = threading.Event(), threading.Event()

    def opens(device: int) -> DeviceInfo:
        assert decoding.wait(timeout=10)
        opened.set()
        return info(device)

    def decodes(*arguments: Any) -> Any:
        decoding.set()
        assert opened.wait(timeout=10)
        return decode_graphs(*arguments)

    info = FakeDriver().open
    monkeypatch.setattr(FakeDriver, "open", lambda self, device: (self._note("open", device), opens(device))[1])
    monkeypatch.setattr(reader, "decode_graphs", decodes)
    with load(PLAN):
        assert machine.names().count("open") == machine.names().count("close") + 1
    assert machine.names().count("open") == machine.names().count("close")


def test_without_a_thread_to_give_the_plan_still_loads(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with load(PLAN):
        assert machine.names().count("open") == machine.names().count("close") + 1
    assert all(driver.live == [] for driver in machine.drivers)


def test_a_plan_that_is_refused_while_the_context_is_made_gives_it_back(machine: Machine, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.plan"
    content = bytearray(PLAN.read_bytes())
    content[-1] ^= 1  # a byte of the last blob
    damaged.write_bytes(content)
    with pytest.raises(PlanError, match="CAD5007"):
        load(damaged)
    assert machine.names().count("open") == machine.names().count("close")
    assert "launch" not in machine.names()
    assert all(driver.live == [] for driver in machine.drivers)


class Gate:
    """Lets the last blob be read only when another has been uploaded, and notes what had happened when it was read."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.uploaded, self.seen = threading.Event(), list[str]()
        upload, content = FakeDriver.upload, blobs._content
        last = max(constant.blob for constant in open_plan(EULER).constants)

        def uploads(driver: FakeDriver, *arguments: Any) -> None:
            upload(driver, *arguments)
            self.uploaded.set()

        def reads(row: Any, *arguments: Any) -> bytes:
            if row.index == last:
                assert self.uploaded.wait(timeout=10)
                self.seen += machine.names()
            return content(row, *arguments)

        monkeypatch.setattr(FakeDriver, "upload", uploads)
        monkeypatch.setattr(blobs, "_content", reads)


def test_blobs_are_uploaded_while_others_are_hashed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(machine, monkeypatch)
    with load(EULER) as plan:
        assert "upload" in gate.seen and "launch" not in machine.names()
        assert plan.plan == open_plan(EULER)
        (device,) = (driver for driver in machine.drivers if driver.memory_at)
        (arena,) = (bytes(held) for held in device.memory_at.values())
        section = next(section for section in plan.plan.sections if section.name == "constants")
        for constant in plan.plan.constants:
            start = section.offset + constant.offset
            assert arena[start : start + constant.size_bytes] == plan.plan.blobs[constant.blob]


def test_damage_that_is_found_behind_an_upload_gives_everything_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    damaged = altered(EULER, max(constant.blob for constant in open_plan(EULER).constants), tmp_path)
    with pytest.raises(PlanError) as expected:
        open_plan(damaged)
    gate = Gate(machine, monkeypatch)
    with pytest.raises(PlanError) as caught:
        load(damaged, warm=True)
    assert str(caught.value) == str(expected.value)
    assert str(caught.value).startswith("CAD5007: the digest of blob 14 does not match")
    assert "upload" in gate.seen
    assert "launch" not in machine.names()
    assert all(driver.live == [] for driver in machine.drivers)
    assert machine.names().count("open") == machine.names().count("close")


@pytest.mark.parametrize("machine", [{"fail": ("upload", 1)}, {"capability": (8, 0)}], indirect=True)
def test_damage_is_told_before_what_the_device_says(machine: Machine, tmp_path: Path) -> None:
    for number in (0, 14):
        with pytest.raises(PlanError, match=f"CAD5007: the digest of blob {number}"):
            load(altered(EULER, number, tmp_path))
    assert all(driver.live == [] for driver in machine.drivers)


def test_no_blob_is_uploaded_and_no_image_loaded_before_its_own_digest(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each blob is damaged in turn: not one byte of it reaches the device."""
    plan = open_plan(EULER)
    assert plan.cuda is not None
    images = {image.blob for image in plan.cuda.images}
    for number in range(len(plan.blobs)):
        damaged = altered(EULER, number, tmp_path)
        upload, reached = FakeDriver.upload, list[bytes]()

        def uploads(driver: FakeDriver, address: int, source: int, size: int, *rest: Any) -> None:
            reached.append(ctypes.string_at(source, size))  # noqa: B023
            upload(driver, address, source, size, *rest)  # noqa: B023

        with monkeypatch.context() as patch:
            patch.setattr(FakeDriver, "upload", uploads)
            with pytest.raises(PlanError, match=f"blob {number} does not match"):
                load(damaged)
        assert blob_of(damaged, number) not in reached
        if number in images:
            assert not reached and "load_library" not in machine.names()
        machine.drivers.clear()


def test_a_plan_for_the_cpu_asks_for_no_device(machine: Machine) -> None:
    with suppress(CadenceError):  # it was compiled elsewhere
        load(CPU_PLAN).close()
    assert machine.drivers == []


def test_what_goes_wrong_ahead_of_time_is_told_by_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> FakeDriver:
        raise RuntimeError("broken")

    monkeypatch.setattr(door, "system_driver", broken)
    with pytest.raises(RuntimeError, match="broken"):
        load(PLAN)


def test_a_plan_cut_short_is_told_before_the_device_is_asked(machine: Machine, tmp_path: Path) -> None:
    cut = tmp_path / "cut.plan"
    cut.write_bytes(PLAN.read_bytes()[:-1])
    assert check(cut).verdict == "incompatible"
    assert machine.drivers == []


def test_the_slabs_of_a_lane_come_with_its_second_session(machine: Machine) -> None:
    with load(PLAN) as plan:
        before = machine.names().count("allocate")
        kept = plan.session()
        assert machine.names().count("allocate") == before
        other = plan.session()
        assert machine.names().count("allocate") == before + 2
        freed = machine.names().count("free")
        other.close()
        assert machine.names().count("free") == freed + 2
        assert plan.capacity().free_bytes == machine.drivers[-1].free_bytes - NODES * NODE_BYTES
        kept.close()
    assert all(driver.live == [] for driver in machine.drivers)


def test_lanes_that_a_load_took_memory_for_are_handed_out_and_given_back(machine: Machine) -> None:
    with load(PLAN, lanes=3) as plan:
        before = machine.names().count("reserve")
        assert (before, plan.spare_lanes, lanes_for(plan, None, None)) == (3, 2, 3)
        assert plan.capacity(lanes=3).lanes_bytes == 0
        assert plan.capacity(lanes=4).lanes_bytes > 0
        with plan.lane(), plan.session():
            assert (machine.names().count("reserve"), plan.spare_lanes) == (before, 1)
    assert all(driver.live == [] for driver in machine.drivers)
    assert machine.names().count("open") == machine.names().count("close")


@pytest.mark.parametrize("machine", [{"fail": ("reserve", 3)}], indirect=True)
def test_a_load_whose_lanes_do_not_fit_gives_back_all_it_took(machine: Machine) -> None:
    with pytest.raises(DeviceError, match="CAD8001"):
        load(PLAN, lanes=3)
    assert all(driver.live == [] for driver in machine.drivers)
    assert machine.names().count("open") == machine.names().count("close")


def test_a_load_of_no_lanes_is_refused(machine: Machine) -> None:
    with pytest.raises(UsageError) as caught:
        load(PLAN, lanes=0)
    assert str(caught.value) == "CAD9703: too few lanes\n  expected: 1 or more\n  got:      0"
    assert machine.drivers == []


def test_the_way_to_a_load_imports_what_it_needs_and_no_more() -> None:
    """Imports are a good part of the time to the first output of a fresh process."""
    code = (
        "import sys, cadence_runtime, cadence_runtime.cuda.player, cadence_runtime.cuda.bindings\n"
        f"sys.modules['cadence_runtime.check'].open_plan({str(PLAN)!r})\n"
        "print(*sorted(name for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", PATHS + code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"numpy", "cuda.bindings.driver", "cadence_runtime.format.graphs"} <= loaded
    assert not loaded & {"torch", "pydantic", "cadencec", "dataclasses", "logging", "concurrent.futures", "pathlib"}
    assert {name for name in loaded if name.startswith("cadence_runtime.cpu")} == set()
    assert not loaded & {"cadence_runtime.signature", "cadence_runtime.format.writer", "cadence_runtime.format.outline"}


def test_each_thread_that_uses_a_plan_makes_the_device_current_once(machine: Machine) -> None:
    def talk() -> None:
        with plan.session():
            pass
        plan.capacity()

    with load(PLAN) as plan:
        kept = plan.session()
        counts = [machine.names().count("use")]
        for _ in range(2):
            thread = threading.Thread(target=talk)
            thread.start()
            thread.join()
            counts.append(machine.names().count("use"))
        talk()
        counts.append(machine.names().count("use"))
        kept.close()
    assert [after - before for before, after in pairwise(counts)] == [1, 1, 0]
