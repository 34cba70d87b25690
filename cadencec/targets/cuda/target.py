"""The CUDA target: captures every key as it is found, and completes the plan at the end.

The profiling interface and the recording allocator have to come before the first CUDA call of the process, so a process
compiles for CUDA before it does anything else with the device.
"""

import atexit
import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from cadence_runtime.cuda.bindings import CudaDriver
from cadence_runtime.cuda.driver import DeviceInfo
from cadence_runtime.errors import TargetError
from cadence_runtime.format.plan import Plan, TensorForm
from cadence_runtime.format.tape import View
from cadence_runtime.format.tapes import encode_tapes
from cadencec import __version__
from cadencec.targets.backend import Finding
from cadencec.targets.cuda.allocator import RecordingAllocator
from cadencec.targets.cuda.cache import CaptureCache, key_of
from cadencec.targets.cuda.capture import DEVICE, Job, Stores
from cadencec.targets.cuda.entry import summary_of
from cadencec.targets.cuda.finish import Captured, Made, finish
from cadencec.targets.cuda.images import ImageCollector
from cadencec.targets.cuda.libraries import installed_versions
from cadencec.targets.cuda.nameless import nameless
from cadencec.targets.cuda.placement import Placement, Slot, SlotName
from cadencec.targets.cuda.recording import CudaRecorder, CudaRecording
from cadencec.trace.state import form_bytes

ARENA_ADDRESS = 0x6F00_0000_0000
"""Where arenas are recorded, and where a load asks for its own first."""
RANGE_BYTES = 1 << 40
SWITCHES = ("CUBLAS", "CUDA_", "CUDNN", "NVIDIA_", "PYTORCH_", "TORCH_", "TRITON_")
"""What the names of environment variables begin with that steer the libraries."""
PROCESS = secrets.token_hex(16)
"""Stands for what cannot be told from outside, such as the kernels behind the ops of other libraries than torch."""


@dataclass(slots=True)
class CudaTarget:
    """One compilation for the device of this process. Captures go to disk as they are made, and come back one at a time
    at the end."""

    info: DeviceInfo
    cache: CaptureCache
    warnings: list[str]
    _collector: ImageCollector
    _allocator: RecordingAllocator
    _recorder: CudaRecorder
    device: torch.device = DEVICE
    _graphs: dict[str, Captured] = field(default_factory=dict)
    _made: list[Made] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Capture a key, or find it in the cache; the n-th one belongs to the n-th capture of the plan. Indices of a
        stage that only stand elsewhere are one capture."""
        found = nameless(finding, tuple(self._slots_of(finding)))
        device = (("driver", str(self.info.driver)), ("sm", str(self.info.compute_capability)))
        key = capture_key(found.finding, found.slots, (*self.environment(), *device))
        if key not in self._graphs:
            summary = self.cache.find(key)
            if summary is None:
                recording = self._record(found.finding, found.slots)
                self.cache.put(key, recording, self._collector.images)
                summary = summary_of(recording)
            self._graphs[key] = Captured(found.finding.tape, summary)
        self._made.append(Made(key, found.uses))

    def _record(self, finding: Finding, slots: Sequence[Slot]) -> CudaRecording:
        placements = (Placement(self._allocator, slots), Placement(self._allocator, slots))
        host = {s.name: finding.constants[s.name] for s in finding.tape.storages if s.kind == "constant" and s.host}
        owners = {
            path: finding.owners[form.slot] for path, form in finding.before.items() if isinstance(form, TensorForm)
        }
        job = Job(finding.tape, host, _stores(finding), dict(_sample(finding)), owners)
        generator = torch.cuda.default_generators[DEVICE.index]
        state = generator.get_state()  # what is traced next must not depend on whether this was in the cache
        try:
            return self._recorder.record(job, placements)
        finally:
            generator.set_state(state)

    def finish(self, plan: Plan) -> Plan:
        """Return the plan with its graphs, its scratch packed, and tapes that only say what a stage's interface is."""
        return finish(plan, self._graphs, self._made, self.cache, self.info, self._allocator.base)

    def environment(self) -> tuple[tuple[str, str], ...]:
        """Return what the captures were made with."""
        pairs = installed_versions() | {
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
            "gpu": self.info.name,
            "torch": torch.__version__.partition("+")[0],
        }
        return tuple(sorted(pairs.items()))

    def _slots_of(self, finding: Finding) -> Iterator[Slot]:
        """Yield the named buffers of a capture, each storage of the tape once, then slots that are only written."""
        sizes = _slot_sizes(finding)
        for storage in finding.tape.storages:
            if storage.kind == "weight":
                yield Slot(SlotName("weight", storage.name), storage.size_bytes, _bytes(finding.weights[storage.name]))
            elif storage.kind == "constant" and not storage.host:
                content = finding.constants[storage.name]
                yield Slot(SlotName("constant", storage.name), storage.size_bytes, content)
            elif storage.kind == "input":
                yield Slot(SlotName("input", storage.name), storage.size_bytes)
        for owner, size in sizes.items():
            yield Slot(SlotName("leaf", owner), size)
        for binding, form in zip(finding.tape.outputs, finding.outputs, strict=True):
            if isinstance(form, TensorForm):
                yield Slot(SlotName("output", binding.name), form_bytes(form))


def start(cache: Path | None = None) -> CudaTarget:
    """Begin a compilation; captures are kept in a folder, or only as long as it takes. Raises TargetError CAD4103 when
    the process has used CUDA before, DeviceError without a device."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        raise TargetError(
            "CAD4103",
            "this process has used CUDA before the compiler began",
            expected="a fresh process",
            got="an initialised device",
            hint="run `cadencec compile --target cuda`, which is one",
        )
    collector = ImageCollector()
    collector.__enter__()  # for as long as the process lives: modules are loaded when they are first used
    info = CudaDriver().open(DEVICE.index)
    allocator = RecordingAllocator(ARENA_ADDRESS, RANGE_BYTES, DEVICE.index)
    allocator.install()
    warnings: list[str] = []
    kept = CaptureCache(cache or _folder_of_this_process(), warnings.append)
    return CudaTarget(info, kept, warnings, collector, allocator, CudaRecorder(allocator, collector.images))


def _folder_of_this_process() -> Path:
    folder = TemporaryDirectory(prefix="cadencec-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def capture_key(finding: Finding, slots: Sequence[Slot], environment: Sequence[tuple[str, str]]) -> str:
    """Return the key of a capture in the cache: a digest of all that it depends on."""
    is_torchs_own = all(op.name.startswith("aten::") for op in finding.tape.ops)
    return key_of(
        {
            "compiler": __version__,
            "torch": [torch.__version__, torch.version.git_version],
            "process": None if is_torchs_own else PROCESS,
            "environment": dict(environment),
            "switches": {name: value for name, value in os.environ.items() if name.startswith(SWITCHES)},
            "numerics": dict(finding.numerics),
            # Constants are named by their digests; of weights only the places matter.
            "tape": hashlib.sha256(encode_tapes((finding.tape,))).hexdigest(),
            "slots": [[slot.name.kind, slot.name.name, slot.size_bytes] for slot in slots],
            "stores": _stores(finding),
            "before": [[path, form] for path, form in sorted(finding.before.items())],
            "owners": list(finding.owners),
        }
    )


def _slot_sizes(finding: Finding) -> dict[str, int]:
    """Return the size of each leaf slot that the capture touches, by the path of the slot's leaf."""
    sizes: dict[str, int] = {}
    for form in (*finding.before.values(), *finding.after.values()):
        if isinstance(form, TensorForm):
            owner = finding.owners[form.slot]
            sizes[owner] = max(sizes.get(owner, 0), form_bytes(form))
    return sizes


def _stores(finding: Finding) -> Stores:
    outputs = tuple(form if isinstance(form, TensorForm) else None for form in finding.outputs)
    leaves: list[tuple[str, TensorForm] | None] = []
    for binding in finding.tape.state_out:
        form = finding.after.get(binding.name)
        leaves.append((finding.owners[form.slot], form) if isinstance(form, TensorForm) else None)
    return Stores(outputs, tuple(leaves))


def _sample(finding: Finding) -> Iterator[tuple[SlotName, Tensor]]:
    """Yield bytes of inputs and leaf slots that the stage was run on."""
    for binding in finding.tape.inputs:
        value = finding.inputs[binding.name]
        if isinstance(value, Tensor) and isinstance(binding.value, View):
            yield SlotName("input", binding.name), _bytes(value.contiguous())
    for path, form in finding.before.items():
        value = finding.leaves[path]
        if isinstance(value, Tensor) and isinstance(form, TensorForm) and finding.owners[form.slot] == path:
            yield SlotName("leaf", path), _bytes(value)


def _bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor's storage from its start, as a 1-D uint8 tensor on the same device."""
    window = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return window.set_(tensor.detach().untyped_storage())
