"""Loading a plan: validate, compare with this machine, and only then allocate."""

import os

from cadence_runtime.check import open_plan, target_reasons, weights_reasons
from cadence_runtime.errors import raise_all
from cadence_runtime.format.plan import Plan
from cadence_runtime.player import Player
from cadence_runtime.session import LoadedPlan
from cadence_runtime.weights import WeightsFile, find_weights


def load(path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None) -> LoadedPlan:
    """Load a plan; close it, or use it as a context manager.

    `weights` is the safetensors file of the release, needed unless the plan embeds its weights; without it, the file
    that the plan names is looked for beside the plan. Raises UsageError, PlanError, IncompatibleError with every
    reason, or DeviceError; then everything that was taken is given back. A CPU plan sets torch's thread count and the
    other numeric switches that it was compiled under for the whole process: bits depend on them.
    """
    plan = open_plan(path)
    given = None if weights is None else os.fspath(weights)
    raise_all([*target_reasons(plan, None), *weights_reasons(plan, os.fspath(path), given, full=False)])
    found = find_weights(plan, os.fspath(path), given)
    file = None if found is None else WeightsFile(found)
    try:
        return LoadedPlan(plan, _player(plan, file))
    finally:
        if file is not None:
            file.close()


def _player(plan: Plan, file: WeightsFile | None) -> Player:
    source = _no_weights if file is None else file.tensor
    if plan.target == "cpu":
        from cadence_runtime.cpu.numerics import apply
        from cadence_runtime.cpu.player import CpuPlayer

        apply(plan.provenance.numerics)
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


def _no_weights(name: str) -> memoryview:
    raise KeyError(name)  # a plan without a weights file embeds every weight
