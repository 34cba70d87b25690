"""A driver in memory: it records each call, keeps device memory as bytes, and launches nothing."""

import ctypes
import threading
from dataclasses import dataclass, field
from typing import Any

from cadence_runtime.cuda.driver import DeviceInfo, driver_error
from cadence_runtime.format.cuda import KernelNode, MemcpyNode, MemsetNode

ANYWHERE = 0x6000_0000_0000


@dataclass
class FakeDriver:
    """`calls` lists (name, arguments) in order, and `threads` the names of the threads that made them; `param_bytes` is
    what each added launch was given; `launched` are executables with their streams. `fail` names a call that is refused
    from its n-th time on."""

    capability: tuple[int, int] = (9, 0)
    version: int = 13000
    free_bytes: int = 1 << 40
    taken: frozenset[int] = frozenset()
    layouts: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    fail: tuple[str, int] | None = None
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)
    memory_at: dict[int, bytearray] = field(default_factory=dict)
    param_bytes: list[tuple[bytes, ...]] = field(default_factory=list)
    launched: list[tuple[str, str]] = field(default_factory=list)
    live: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: set[threading.Thread] = field(default_factory=lambda: {threading.main_thread()})

    def _note(self, name: str, *arguments: Any) -> None:
        here = threading.current_thread()
        if name in ("open", "use"):
            self.users.add(here)
        assert name == "close" or here in self.users, "the context is not current on this thread"
        with self.lock:
            self.calls.append((name, *arguments))
            self.threads.append(here.name)
        if self.fail and self.fail[0] == name and sum(call[0] == name for call in self.calls) >= self.fail[1]:
            raise driver_error(name, "CUDA_ERROR_FAKE")

    def _bytes(self, address: int, size: int) -> tuple[bytearray, int]:
        for base, held in self.memory_at.items():
            if base <= address and address + size <= base + len(held):
                return held, address - base
        raise AssertionError(f"{size} bytes at {address:#x} are not mapped")

    def open(self, device: int) -> DeviceInfo:
        self._note("open", device)
        return DeviceInfo("fake", self.capability, self.version, self.free_bytes, 1 << 41, 1 << 18)

    def close(self) -> None:
        self._note("close")

    def use(self) -> None:
        self._note("use")

    def reserve(self, size: int, address: int) -> int:
        self._note("reserve", size, address)
        base = (address or ANYWHERE) + (len(self.calls) << 32 if not address or address in self.taken else 0)
        self.memory_at[base] = bytearray(size)
        self.live.append(f"memory {base:#x}")
        return base

    def release(self, address: int, size: int) -> None:
        self._note("release", address, size)
        del self.memory_at[address]
        self.live.remove(f"memory {address:#x}")

    def allocate(self, size: int) -> int:
        self._note("allocate", size)
        address = 0x5000_0000_0000 + (len(self.calls) << 32)
        self.memory_at[address] = bytearray(size)
        self.live.append(f"slab {address:#x}")
        return address

    def free(self, address: int) -> None:
        self._note("free", address)
        del self.memory_at[address]
        self.live.remove(f"slab {address:#x}")

    def upload(self, address: int, source: int, size: int, stream: object) -> None:
        self._note("upload", address, size)
        held, at = self._bytes(address, size)
        held[at : at + size] = ctypes.string_at(source, size)

    def download(self, destination: int, address: int, size: int, stream: object) -> None:
        self._note("download", address, size)
        held, at = self._bytes(address, size)
        ctypes.memmove(destination, bytes(held[at : at + size]), size)

    def copy(self, destination: int, source: int, size: int, stream: object) -> None:
        self._note("copy", destination, source, size)
        held, at = self._bytes(source, size)
        data = bytes(held[at : at + size])
        held, at = self._bytes(destination, size)
        held[at : at + size] = data

    def fill(self, address: int, value: int, size: int, stream: object) -> None:
        self._note("fill", address, value, size)
        held, at = self._bytes(address, size)
        held[at : at + size] = bytes([value]) * size

    def load_library(self, image: bytes) -> str:
        self._note("load_library", image)
        name = f"library {image[:8].hex()}"
        self.live.append(name)
        return name

    def unload_library(self, library: str) -> None:
        self._note("unload_library", library)
        self.live.remove(library)

    def function(self, library: str, name: str) -> str:
        self._note("function", library, name)
        return name

    def set_attribute(self, function: str, attribute: int, value: int) -> None:
        self._note("set_attribute", function, attribute, value)

    def param_info(self, function: str) -> tuple[tuple[int, int], ...]:
        self._note("param_info", function)
        return self.layouts[function]

    def global_address(self, library: str, name: str) -> tuple[int, int]:
        self._note("global_address", library, name)
        base = 0x7000_0000 + len(self.memory_at) * 0x10000
        self.memory_at[base] = bytearray(4096)
        return base, 4096

    def new_graph(self) -> list[Any]:
        self._note("new_graph")
        return []

    def add_kernel(self, graph: list[Any], after: list[Any], node: KernelNode, function: str, params: int) -> str:
        self._note("add_kernel", tuple(after), function, node.grid, node.block, node.shared_bytes, node.attributes)
        layout = self.layouts[function]
        pointers = [ctypes.c_void_p.from_address(params + 8 * index).value for index in range(len(layout))]
        self.param_bytes.append(
            tuple(ctypes.string_at(at, size) for at, (_, size) in zip(pointers, layout, strict=True))  # type: ignore[arg-type]
        )
        graph.append(node)
        return f"node {len(graph) - 1}"

    def add_memset(self, graph: list[Any], after: list[Any], node: MemsetNode, address: int) -> str:
        self._note("add_memset", tuple(after), address, node.value, node.width)
        graph.append(node)
        return f"node {len(graph) - 1}"

    def add_memcpy(self, graph: list[Any], after: list[Any], node: MemcpyNode, destination: int, source: int) -> str:
        self._note("add_memcpy", tuple(after), destination, source, node.width)
        graph.append(node)
        return f"node {len(graph) - 1}"

    def add_edge(self, graph: list[Any], before: str, after: str, data: tuple[int, int, int]) -> None:
        self._note("add_edge", before, after, data)

    def destroy_graph(self, graph: list[Any]) -> None:
        self._note("destroy_graph")

    def instantiate(self, graph: list[Any]) -> str:
        self._note("instantiate", len(graph))
        name = f"executable {sum(call[0] == 'instantiate' for call in self.calls)}"
        self.live.append(name)
        return name

    def destroy(self, executable: str) -> None:
        self._note("destroy", executable)
        self.live.remove(executable)

    def new_stream(self) -> str:
        self._note("new_stream")
        stream = f"stream {sum(call[0] == 'new_stream' for call in self.calls)}"
        self.live.append(stream)
        return stream

    def destroy_stream(self, stream: str) -> None:
        self._note("destroy_stream", stream)
        self.live.remove(stream)

    def prepare(self, executable: str, stream: str) -> None:
        self._note("prepare", executable)

    def launch(self, executable: str, stream: str) -> None:
        self._note("launch", executable)
        assert executable in self.live
        assert stream in self.live
        self.launched.append((executable, stream))

    def synchronize(self, stream: str) -> None:
        self._note("synchronize")

    def memory(self) -> tuple[int, int]:
        return self.free_bytes, 1 << 41
