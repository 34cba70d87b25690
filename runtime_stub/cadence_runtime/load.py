"""Loading a plan: validate, compare with this machine, and only then allocate."""

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress

from cadence_runtime.check import open_file, signature_reasons, target_reasons
from cadence_runtime.errors import DeviceError, raise_all
from cadence_runtime.format.plan import Plan
from cadence_runtime.player import Player
from cadence_runtime.policy import Policy
from cadence_runtime.session import LoadedPlan
from cadence_runtime.weights import open_weights


def load(
    path: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    *,
    policy: Policy | None = None,
    warm: bool = False,
    budget_bytes: int | None = None,
) -> LoadedPlan:
    """Load a plan; close it, or use it as a context manager.

    `weights` is the safetensors file of the release, needed unless the plan embeds its weights; without it, the file
    that the plan names is looked for beside the plan. Raises UsageError, PlanError, IncompatibleError with every
    reason, or DeviceError; then everything that was taken is given back. While a CPU plan is open, torch's thread count
    and the other numeric switches that it was compiled under are set for the whole process: bits depend on them.

    With a `policy`, plan and weights load only if they are signed as it says; what is loaded is the very bytes that
    were checked, whatever happens to the files meanwhile.

    A CUDA plan builds a capture's executable when it first runs, or, with `warm`, all of them now; `budget_bytes` is
    what executables may take on the device, those that ran longest ago making room. Neither bears on a CPU plan.
    """
    file = open_file(path, policy)
    plan = file.plan
    with open_weights(plan, path, weights) as held, _context(plan):
        signature = signature_reasons(policy, path, file, held)
        raise_all([*signature, *target_reasons(plan, None), *held.faults(plan, digests=False)])
        tensor = held.tensor if policy is None else held.compared(plan)
        return LoadedPlan(plan, _player(plan, tensor, warm, budget_bytes))


def _context(plan: Plan) -> ExitStack:
    """Keep the device's context from the comparison to the load: to make one takes longer than many a load."""
    held = ExitStack()
    if plan.target == "cuda":
        from cadence_runtime.cuda import driver as door

        with suppress(DeviceError):  # why there is none is among the reasons
            driver = door.system_driver()
            driver.open(0)
            held.callback(driver.close)
    return held


def _player(plan: Plan, source: Callable[[str], memoryview], warm: bool, budget_bytes: int | None) -> Player:
    if plan.target == "cpu":
        from cadence_runtime.cpu.player import CpuPlayer

        return CpuPlayer(plan, source)
    from cadence_runtime.cuda import driver as door
    from cadence_runtime.cuda.player import CudaPlayer

    driver = door.system_driver()
    driver.open(0)
    try:
        return CudaPlayer(plan, driver, source, warm=warm, budget_bytes=budget_bytes)
    except BaseException:
        driver.close()
        raise
