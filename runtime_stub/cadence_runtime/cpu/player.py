"""The CPU player: one allocation, one graph for each capture, run by torch's C++ interpreter."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from cadence_runtime.cpu.capture import Places, Ready, prepare
from cadence_runtime.cpu.graph import Script
from cadence_runtime.cpu.literals import DTYPES, HOST
from cadence_runtime.cpu.memory import Arena, free_bytes, zeros
from cadence_runtime.cpu.numerics import hold
from cadence_runtime.errors import DeviceError
from cadence_runtime.format.plan import Capture, Plan, TensorForm
from cadence_runtime.residency import AllStay, Residency

WeightSource = Callable[[str], memoryview]
"""Returns the raw bytes of a weight by tensor name."""

READ_ONLY = ("weights", "constants")

_generator_lock = threading.Lock()
"""torch's default generator is one for the process; a capture that draws has it to itself."""


class CpuPlayer:
    """See `cadence_runtime.player.Player`; arrays are torch tensors on the CPU.

    Nothing that lives as long as the player is made under the caller's `inference_mode`: torch would refuse to write to
    it elsewhere.
    """

    def __init__(self, plan: Plan, weights: WeightSource | None, lender: Arena | None = None) -> None:
        self.plan = plan
        self.residency: Residency = AllStay()
        self._switches = hold(plan.provenance.numerics)
        try:
            with torch.inference_mode(False):
                self._stand_on(Arena(_arena_bytes(plan), lender, 0 if lender is None else _lent_bytes(plan)))
                if weights is not None:
                    self._fill_all(weights)
        except BaseException:
            self.close()
            raise

    def _stand_on(self, arena: Arena) -> None:
        state = next(section for section in self.plan.sections if section.name == "state")
        self._places = Places(self.plan, arena)
        self._state = arena.part(state.offset, state.size_bytes)
        self._ready: list[Ready | None] = [None] * len(self.plan.captures)

    def _fill_all(self, weights: WeightSource) -> None:
        plan, places = self.plan, self._places
        for weight in plan.weights:
            source = plan.blobs[weight.blob] if weight.blob is not None else weights(weight.name)
            self._fill(places.weights[weight.name], source)
        for constant in plan.constants:
            self._fill(places.constants[constant.sha256], plan.blobs[constant.blob])

    def _fill(self, offset: int, source: bytes | memoryview) -> None:
        if len(source):
            np.copyto(self._places.arena.part(offset, len(source)).numpy(), np.frombuffer(source, np.uint8))

    def accept(self, value: object, dtype: str) -> Tensor:
        if not isinstance(value, Tensor):
            value = _foreign(value)
        if value.dtype is not DTYPES[dtype] or not value.is_cpu or value.layout is not torch.strided:
            raise ValueError(_described(value))
        return value.detach() if value.requires_grad else value

    def shape(self, array: Tensor) -> tuple[int, ...]:
        return tuple(array.shape)

    def rows(self, values: tuple[int, ...], dtype: str, axis: int, rank: int) -> Tensor:
        sizes = [1] * rank
        sizes[axis] = len(values)
        return torch.tensor(values, dtype=DTYPES[dtype], device=HOST).reshape(sizes)

    def join(self, one: Tensor, other: Tensor, axis: int) -> Tensor:
        return torch.cat([one, other], axis)

    def take(self, array: Tensor, axis: int, lower: int, upper: int) -> Tensor:
        return array.narrow(axis, lower, upper - lower)

    def new_slab(self) -> Tensor:
        with torch.inference_mode(False):
            return zeros(len(self._state), "the state of another session")

    def free_slab(self, slab: Tensor) -> None:
        """Host memory goes with its last reference."""

    def activate(self, slab: Tensor) -> None:
        self._state.copy_(slab)

    def deactivate(self, slab: Tensor) -> None:
        slab.copy_(self._state)

    def seeded(self, seed: int) -> Tensor:
        return torch.Generator(HOST).manual_seed(seed).get_state()

    def write_input(self, capture: int, position: int, array: Tensor) -> None:
        ready = self._ready[capture] or self._prepare(capture)
        target = ready.inputs[position]
        target.copy_(array if array.shape == target.shape else array.as_strided(target.shape, array.stride()))

    def run(self, capture: int, generator: Tensor) -> Tensor:
        ready = self._ready[capture] or self._prepare(capture)
        self._switches.on_this_thread()
        try:
            if ready.draws:
                return _run_with(ready.run, generator)
            ready.run()
        except RuntimeError as error:
            raise self._failed(capture, error) from error
        return generator

    def output(self, capture: int, position: int) -> Tensor:
        ready = self._ready[capture] or self._prepare(capture)
        return ready.outputs[position]

    def copy(self, array: Tensor) -> Tensor:
        return array.clone()

    def lend(self, array: Tensor, lent: Tensor | None) -> Tensor:
        if lent is None or lent.shape != array.shape or lent.dtype is not array.dtype:
            return array.clone()
        return lent.copy_(array)

    def leaf(self, index: int, form: TensorForm) -> Tensor:
        return self._places.leaf(form).clone()

    def use(self) -> None:
        """The host is current everywhere; `run` sets what torch keeps for each thread."""

    def lane(self) -> "CpuPlayer":
        lane, mine = CpuPlayer(self.plan, None, self._places.arena), self._places.arena
        for section in self.plan.sections:
            if section.name in READ_ONLY and section.offset >= lane._places.arena.lent_bytes:
                lane._fill(section.offset, mine.part(section.offset, section.size_bytes).numpy().tobytes())
        return lane

    def lane_bytes(self) -> int:
        return _arena_bytes(self.plan) - _lent_bytes(self.plan)

    def free_bytes(self) -> int:
        return free_bytes()

    def report(self) -> Mapping[str, int]:
        lent_bytes = self._places.arena.lent_bytes
        sizes: dict[str, int] = {s.name: s.size_bytes if s.offset >= lent_bytes else 0 for s in self.plan.sections}
        return {**sizes, "unplanned": max(map(self._unplanned_bytes, self.plan.captures), default=0)}

    def close(self) -> None:
        self._switches.release()
        self._stand_on(Arena(0))

    def _prepare(self, capture: int) -> Ready:
        with torch.inference_mode(False):
            ready = self._ready[capture] = prepare(self._places, self.plan.captures[capture])
        return ready

    def _unplanned_bytes(self, capture: Capture) -> int:
        """Return what torch allocates for results whenever a capture runs."""
        planned = {storage for storage, _ in capture.scratch}
        storages = enumerate(self.plan.tapes[capture.tape].storages)
        return sum(s.size_bytes for index, s in storages if s.kind == "scratch" and index not in planned)

    def _failed(self, capture: int, error: RuntimeError) -> DeviceError:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return DeviceError(
            "CAD8010",
            f"stage `{self.plan.captures[capture].key.stage}` failed while it ran",
            expected="a replay",
            got=lines[-1] if lines else type(error).__name__,
            hint="the session has ended; open another",
        )


def _arena_bytes(plan: Plan) -> int:
    return max(section.offset + section.size_bytes for section in plan.sections)


def _lent_bytes(plan: Plan) -> int:
    """Return how many bytes at the start of the arena lanes can share: the sections that no capture writes, as far as
    they come first, as the compiler puts them."""
    return next(section.offset for section in plan.sections if section.name not in READ_ONLY)


def _foreign(value: object) -> Tensor:
    """Return an array of another library as a tensor, on its own bytes where torch can stand on them. Raises TypeError
    for what is no array, and ValueError for one that torch has no dtype for or cannot reach."""
    if isinstance(value, np.ndarray | np.generic):
        return _from_numpy(np.asarray(value))
    if not hasattr(value, "__dlpack__"):
        raise TypeError(type(value).__name__)
    try:
        return from_dlpack(value)
    except (RuntimeError, BufferError, TypeError, ValueError, AssertionError) as error:
        raise ValueError(f"a `{type(value).__name__}` that torch cannot read: {error}") from None


def _from_numpy(array: "np.ndarray[Any, np.dtype[Any]]") -> Tensor:
    """torch takes neither foreign byte orders nor negative strides, and warns of arrays that may not be written."""
    if not (array.flags.carray and array.dtype.isnative):
        array = np.require(array, array.dtype.newbyteorder("="), ["C", "A", "W"])
    try:
        return torch.from_numpy(array)
    except TypeError:
        raise ValueError(f"an array of {array.dtype}") from None


def _described(tensor: Tensor) -> str:
    layout = "" if tensor.layout is torch.strided else f"{str(tensor.layout).removeprefix('torch.')} "
    return f"{layout}{str(tensor.dtype).removeprefix('torch.')} on {tensor.device}"


def _run_with(script: Script, generator: Tensor) -> Tensor:
    """Run with torch's default generator in a session's state, and put the process's own state back."""
    with _generator_lock:
        kept = torch.default_generator.get_state()
        torch.default_generator.set_state(generator)
        try:
            script()
            return torch.default_generator.get_state()
        finally:
            torch.default_generator.set_state(kept)
