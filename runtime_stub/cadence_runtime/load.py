"""Loading a plan: validate, compare with this machine, and only then allocate."""

import os
from collections.abc import Callable

from cadence_runtime.check import open_plan, target_reasons
from cadence_runtime.errors import raise_all
from cadence_runtime.format.plan import Plan
from cadence_runtime.player import Player
from cadence_runtime.session import LoadedPlan
from cadence_runtime.weights import open_weights


def load(path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None) -> LoadedPlan:
    """Load a plan; close it, or use it as a context manager.

    `weights` is the safetensors file of the release, needed unless the plan embeds its weights; without it, the file
    that the plan names is looked for beside the plan. Raises UsageError, PlanError, IncompatibleError with every
    reason, or DeviceError; then everything that was taken is given back. While a CPU plan is open, torch's thread count
    and the other numeric switches that it was compiled under are set for the whole process: bits depend on them.
    """
    plan = open_plan(path)
    with open_weights(plan, path, weights) as file:
        raise_all([*target_reasons(plan, None), *file.faults(plan, digests=False)])
        return LoadedPlan(plan, _player(plan, file.tensor))


def _player(plan: Plan, source: Callable[[str], memoryview]) -> Player:
    if plan.target == "cpu":
        from cadence_runtime.cpu.player import CpuPlayer

        return CpuPlayer(plan, source)
    from cadence_runtime.cuda.bindings import CudaDriver
    from cadence_runtime.cuda.player import CudaPlayer

    driver = CudaDriver()
    driver.open(0)
    try:
        return CudaPlayer(plan, driver, source)
    except BaseException:
        driver.close()
        raise
