"""The CUDA player: graphs of a resident plan on one stream, numpy at the border, no torch.

A stage's output stays on the device when a later stage of the event takes it; it comes to the host when it is handed to
the user. The generator's state is the pair (seed, offset) of Philox, written into the words that the graphs read.
"""

from collections.abc import Mapping

import numpy as np

from cadence_runtime.cuda.arrays import DeviceArray, HostArray, numpy_dtype, span_bytes, strided
from cadence_runtime.cuda.common import WeightSource
from cadence_runtime.cuda.compatibility import lent_bytes
from cadence_runtime.cuda.driver import Driver
from cadence_runtime.cuda.resident import Resident, reside
from cadence_runtime.errors import PlanError
from cadence_runtime.format.plan import Plan, TensorForm
from cadence_runtime.format.tape import ITEM_BYTES
from cadence_runtime.residency import Residency

Philox = tuple[int, int]


class CudaPlayer:
    """See `cadence_runtime.player.Player`. Host arrays are numpy arrays.

    With `warm`, executables are built and uploaded at once, as far as `budget_bytes` reach, instead of when they first
    run or, with a budget that does not hold all, when the timeline says that they can come next. Where `weights` is a
    lane that has them, this is one more lane beside it, with a budget of the same size.
    """

    def __init__(
        self,
        plan: Plan,
        driver: Driver,
        weights: WeightSource | Resident,
        address: int | None = None,
        *,
        warm: bool = False,
        budget_bytes: int | None = None,
    ) -> None:
        if plan.cuda is None:
            raise PlanError("CAD5601", "a plan for cuda has no graphs", expected="a cuda part", got="none")
        self.plan = plan
        self._driver = driver
        self._offsets = {section.name: section.offset for section in plan.sections}
        self._state_bytes = next(section.size_bytes for section in plan.sections if section.name == "state")
        self._warm, self._is_first = warm, not isinstance(weights, Resident)
        if isinstance(weights, Resident):
            self._resident = weights.lane()
        else:
            self._resident = reside(driver, plan, plan.cuda, weights, address, budget_bytes)
        self._state = self._resident.base + self._offsets["state"]
        self._slabs: set[int] = set()
        self.residency: Residency = self._resident.executables
        if warm:
            try:
                self._resident.warm()
            except BaseException:
                self._resident.close()
                raise

    def accept(self, value: object, dtype: str) -> HostArray:
        wanted = numpy_dtype(dtype)
        if not isinstance(value, np.ndarray):
            if not hasattr(value, "__dlpack__"):
                raise TypeError(type(value).__name__)
            value = np.from_dlpack(value)
        if value.dtype != wanted:
            raise ValueError(f"an array of {value.dtype}")
        return value

    def shape(self, array: HostArray | DeviceArray) -> tuple[int, ...]:
        return array.form.sizes if isinstance(array, DeviceArray) else tuple(array.shape)

    def rows(self, values: tuple[int, ...], dtype: str, axis: int, rank: int) -> HostArray:
        sizes = [1] * rank
        sizes[axis] = len(values)
        return np.array(values, numpy_dtype(dtype)).reshape(sizes)

    def join(self, one: HostArray, other: HostArray, axis: int) -> HostArray:
        return np.concatenate([one, other], axis)

    def take(self, array: HostArray, axis: int, lower: int, upper: int) -> HostArray:
        return array[(slice(None),) * axis + (slice(lower, upper),)]

    def new_slab(self) -> int:
        slab = self._driver.allocate(self._state_bytes)
        self._slabs.add(slab)
        return slab

    def free_slab(self, slab: int) -> None:
        self._resident.synchronize()
        self._slabs.discard(slab)
        self._driver.free(slab)

    def activate(self, slab: int) -> None:
        self._driver.copy(self._state, slab, self._state_bytes, self._resident.stream)

    def deactivate(self, slab: int) -> None:
        self._driver.copy(slab, self._state, self._state_bytes, self._resident.stream)

    def seeded(self, seed: int) -> Philox:
        return (seed & (2**64 - 1), 0)

    def write_input(self, capture: int, position: int, array: HostArray | DeviceArray) -> None:
        row = self.plan.captures[capture]
        form, offset = row.key.inputs[position], self._offsets["io"] + row.input_offsets[position]
        if not isinstance(form, TensorForm):
            return
        if isinstance(array, DeviceArray):
            self._copy_within(array, offset, form)
        else:
            self._resident.write(offset, _laid_out(array, form))

    def run(self, capture: int, generator: Philox) -> Philox:
        philox = self._resident.graph(capture).philox
        if philox is None:
            self._resident.launch(capture)
            return generator
        seed, offset = generator
        self._resident.write(philox[0], np.array([seed, offset], np.uint64).view(np.uint8))
        self._resident.launch(capture)
        return (seed, (offset + philox[1]) % 2**64)

    def output(self, capture: int, position: int) -> DeviceArray | None:
        row = self.plan.captures[capture]
        form = row.outputs[position]
        if not isinstance(form, TensorForm):
            return None
        return DeviceArray(self._resident, self._offsets["io"] + row.output_offsets[position], form)

    def copy(self, array: DeviceArray) -> HostArray:
        return array.numpy()

    def lend(self, array: DeviceArray, lent: DeviceArray | None) -> DeviceArray:
        return array

    def leaf(self, index: int, form: TensorForm) -> HostArray:
        slot = self.plan.leaves[form.slot].slot_offset
        return DeviceArray(self._resident, self._offsets["state"] + slot, form).numpy()

    def use(self) -> None:
        self._driver.use()

    def lane(self) -> "CudaPlayer":
        return CudaPlayer(self.plan, self._driver, self._resident, warm=self._warm)

    def lane_bytes(self) -> int:
        return self._resident.lane_bytes

    def free_bytes(self) -> int:
        return max(0, self._driver.memory()[0] - self._resident.common.owed_bytes)

    def report(self) -> Mapping[str, int]:
        lent = 0 if self._is_first else lent_bytes(self.plan)
        sizes: dict[str, int] = {s.name: s.size_bytes if s.offset >= lent else 0 for s in self.plan.sections}
        return {**sizes, "executables": self._resident.executables_bytes}

    def close(self) -> None:
        self._driver.synchronize(self._resident.stream)
        for slab in self._slabs:
            self._driver.free(slab)
        self._slabs.clear()
        if self._resident.close():
            self._driver.close()

    def _copy_within(self, array: DeviceArray, offset: int, form: TensorForm) -> None:
        """Hand an output on to an input; where the plan gave both the same place there is nothing to do."""
        target = self._resident.base + offset + form.offset * ITEM_BYTES[form.dtype]
        if array.pointer != target:
            self._driver.copy(target, array.pointer, span_bytes(form), self._resident.stream)


def _laid_out(array: HostArray, form: TensorForm) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    """Return an array's bytes as the form lays them out."""
    raw = np.zeros(span_bytes(form), np.uint8)
    if raw.size:
        strided(raw, form)[...] = array
    return raw
