"""The side of the replay. For a CUDA plan nothing here, and nothing that it imports, imports torch."""

from typing import Any

from cadence_runtime import Policy, Session, load
from cadencec.bench.measure import host_peak_bytes, processor
from cadencec.bench.rows import Array, Row, literal
from cadencec.bench.side import Side


class ReplayLoop:
    """Sessions of a plan; see `measure.Loop`."""

    def __init__(self, side: Side) -> None:
        """Load the plan. What the device has free is noted before, where it is watched: behind its context, which is
        every process's own."""
        self._side = side
        self._driver: Any = None
        self._device = processor()
        if side.target == "cuda" and side.watched:
            from cadence_runtime.cuda import driver as door

            self._driver = door.system_driver()
            found = self._driver.open(0)
            self._device, self._free_bytes, self._version = found.name, found.free_bytes, found.driver
        policy = None if side.policy is None else Policy.of_file(side.policy)
        self._plan = load(side.plan, side.weights, policy=policy, warm=side.warm)
        self._session: Session | None = None

    def facts(self) -> dict[str, Any]:
        if self._driver is None:
            return {"device": self._device}
        return {"device": self._device, "driver": f"{self._version // 1000}.{self._version % 1000 // 10}"}

    def prepare(self, push: Row) -> Any:
        given = {array.name: self._taken(array) for array in push.arrays}
        return push.head["event"], {**given, **push.head["choices"]}

    def open(self, seed: int) -> None:
        self._session = self._plan.session(seed)

    def push(self, prepared: Any) -> Any:
        event, given = prepared
        assert self._session is not None  # noqa: S101 - it is open
        return self._session.push(event, **given)

    def arrays(self, outputs: Any) -> list[list[Array]]:
        return [[self._given(name, value) for name, value in record.outputs.items()] for record in outputs]

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def memory(self) -> dict[str, int | None]:
        device = None
        if self._driver is not None:
            device = self._free_bytes - self._driver.memory()[0]
        return {"allocator_bytes": None, "device_bytes": device, "host_bytes": host_peak_bytes()}

    def end(self) -> None:
        """Give back the plan, and the context that was opened to look at the device."""
        self._plan.close()
        if self._driver is not None:
            self._driver.close()

    def _taken(self, array: Array) -> Any:
        if self._side.target == "cpu":
            from cadencec.bench.tensors import tensor_of

            return tensor_of(array)
        import numpy as np

        from cadence_runtime.cuda.arrays import numpy_dtype

        return np.frombuffer(array.data, numpy_dtype(array.dtype)).reshape(array.sizes)

    def _given(self, name: str, value: Any) -> Array:
        if isinstance(value, bool | int | None):
            return literal(name, value)
        if self._side.target == "cpu":
            from cadencec.bench.tensors import array_of

            return array_of(name, value)
        return Array(name, str(value.dtype), tuple(value.shape), value.tobytes())
