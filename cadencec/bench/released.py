"""The side of the stock loop: a variant of the adapter's oracle, or the adapter's own stages where it has none."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from cadence_runtime.check import open_plan
from cadence_runtime.cpu import numerics as switches
from cadence_runtime.format.plan import Plan
from cadencec.bench.measure import Loop, host_peak_bytes
from cadencec.bench.rows import Array, Row
from cadencec.bench.side import Side
from cadencec.bench.stock import StockModel, StockTalker
from cadencec.bench.talk import Unit
from cadencec.bench.tensors import array_of, tensor_of
from cadencec.plan.stock import oracle_of, stock_jobs
from cadencec.plan.turns import Timeline
from cadencec.spec.load import load_spec
from cadencec.spec.spec import Spec
from cadencec.trace import draws
from cadencec.trace.numerics import TABLE
from cadencec.trace.oracle import Oracle, running

RELEASED, STAGES = "the released loop", "the model's own stages"


def stock_loop(side: Side) -> tuple[Loop, Callable[[], None]]:
    """Build the loop of a side, under the numeric switches that it asks for; also return what puts them back."""
    held = ExitStack()
    if side.numerics is not None:
        held.enter_context(switches.applied(side.numerics, TABLE))
    device = torch.device("cuda", 0) if side.target == "cuda" else torch.device("cpu")
    memory = Memory(device, side.watched)
    spec = load_spec(side.spec, dict(side.overrides))
    oracle = None if side.stages else oracle_of(spec, device)
    if oracle is not None:
        return OracleLoop(oracle, side.variant, memory), held.close
    return StagesLoop(spec, open_plan(side.plan), memory), held.close


class Memory:
    """What this process takes of a device: by torch's allocator at the peak, and by the driver, which also counts what
    the allocator keeps and what libraries take. Before the first session the allocator gives back what building the
    model left over."""

    def __init__(self, device: torch.device, is_watched: bool) -> None:
        self.device = device
        self._is_watched = is_watched and device.type == "cuda"
        self._free_bytes = torch.cuda.mem_get_info(device)[0] if self._is_watched else 0
        self._is_ready = False

    def built(self) -> None:
        """Note that the model is built, and a session is about to begin."""
        if self._is_watched and not self._is_ready:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)
        self._is_ready = True

    def taken(self) -> dict[str, int | None]:
        """Return what was taken so far, in bytes."""
        allocator = torch.cuda.max_memory_allocated(self.device) if self._is_watched else None
        used = self._free_bytes - torch.cuda.mem_get_info(self.device)[0] if self._is_watched else None
        return {"allocator_bytes": allocator, "device_bytes": used, "host_bytes": host_peak_bytes()}


class OracleLoop:
    """Sessions of an oracle, one variant; see `measure.Loop`."""

    def __init__(self, oracle: Oracle, variant: int, memory: Memory) -> None:
        self._oracle, self._variant, self._memory = oracle, oracle.variants[variant], memory

    def facts(self) -> dict[str, Any]:
        return {"loop": RELEASED, "variants": list(self._oracle.variants)}

    def prepare(self, push: Row) -> Any:
        return push.head["event"], {**{a.name: tensor_of(a) for a in push.arrays}, **push.head["choices"]}

    def open(self, seed: int) -> None:
        self._memory.built()
        draws.seed(seed)
        with running("`start`"):
            self._oracle.start(self._variant)

    def push(self, prepared: Any) -> Any:
        event, given = prepared
        with running(event):
            return self._oracle.push(event, **given)

    def arrays(self, outputs: Any) -> list[list[Array]]:
        return [[array_of(name, value) for name, value in made.items()] for made in outputs]

    def close(self) -> None:
        pass

    def memory(self) -> dict[str, int | None]:
        return self._memory.taken()


class StagesLoop:
    """Sessions of the adapter's own stages, called as a streaming loop calls them; see `measure.Loop`."""

    def __init__(self, spec: Spec, plan: Plan, memory: Memory) -> None:
        jobs = stock_jobs(spec, memory.device)
        self._model = StockModel(jobs, any(tape.draws for tape in plan.tapes), memory.device)
        self._plan, self._timeline, self._memory = plan, Timeline(plan), memory
        self._talker: StockTalker | None = None

    def facts(self) -> dict[str, Any]:
        return {"loop": STAGES, "variants": ["stages"]}

    def prepare(self, push: Row) -> Any:
        made = self._timeline.push(self._plan.transitions[push.head["transition"]])
        inputs = {array.name: tensor_of(array) for array in push.arrays}
        return Unit(push.head["event"], inputs, push.head["choices"], made.steps)

    def open(self, seed: int) -> None:
        self._memory.built()
        self._talker = StockTalker(self._model, seed)

    def push(self, prepared: Any) -> Any:
        assert self._talker is not None  # noqa: S101 - it is open
        made = self._talker.push(prepared)
        return [{name: _on_host(value) for name, value in outputs.items()} for outputs in made]

    def arrays(self, outputs: Any) -> list[list[Array]]:
        return [[array_of(name, value) for name, value in made.items()] for made in outputs]

    def close(self) -> None:
        self._talker = None

    def memory(self) -> dict[str, int | None]:
        return self._memory.taken()


def _on_host(value: object) -> object:
    """Return a copy of a tensor that belongs to the caller, as `push` of a plan does."""
    return value.to("cpu", copy=True) if isinstance(value, torch.Tensor) else value
