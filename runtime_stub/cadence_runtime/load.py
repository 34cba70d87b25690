"""Loading a plan: validate, compare with this machine, and only then allocate.

    rules of the plan -> signature, machine -> arena, uploads, images, functions ->|  a plan to push to
    blobs are read and hashed, each before it is uploaded ------------------------>|

A blob goes to the device as soon as its own digest is known to be right, while others are still hashed. Nothing runs
before all of them are; where one is wrong, everything is given back.
"""

import os
from contextlib import AbstractContextManager, ExitStack, suppress
from threading import Thread
from types import TracebackType
from typing import Self

from cadence_runtime.check import signature_reasons, target_reasons
from cadence_runtime.errors import raise_all
from cadence_runtime.format.blobs import Blobs
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.reader import PlanFile, reading_plan
from cadence_runtime.player import Player
from cadence_runtime.policy import Policy
from cadence_runtime.session import LoadedPlan, check_lanes
from cadence_runtime.weights import WeightsFile, open_weights
from cadence_runtime.zstd import decompress


def load(
    path: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    *,
    policy: Policy | None = None,
    warm: bool = False,
    budget_bytes: int | None = None,
    lanes: int = 1,
) -> LoadedPlan:
    """Load a plan; close it, or use it as a context manager.

    `weights` is the safetensors file of the release, needed unless the plan embeds its weights; without it, the file
    that the plan names is looked for beside the plan. Raises UsageError, PlanError, IncompatibleError with every
    reason, or DeviceError; then everything that was taken is given back. While a CPU plan is open, torch's thread count
    and the other numeric switches that it was compiled under are set for the whole process: bits depend on them.

    With a `policy`, plan and weights load only if they are signed as it says; what is loaded is the very bytes that
    were checked, whatever happens to the files meanwhile.

    `lanes` is how many lanes memory is taken for: one is what is returned, its `lane` gives the others, and an executor
    uses all of them. Raises UsageError CAD9703 for none, DeviceError CAD8006 or CAD8011 where they do not fit.

    A CUDA plan builds a capture's executable when it first runs, or, with `warm`, all of them now. `budget_bytes` is
    what executables of each lane may take on the device, as predicted: where that is less than all, a thread builds
    those that the open sessions can run next, ahead of their pushes. Neither bears on a CPU plan. Raises UsageError
    CAD9704 for a budget that does not hold what one push runs.
    """
    check_lanes(lanes, 1)
    with _Ahead() as ahead, _reading(path, policy, ahead) as (file, blobs):
        plan = file.plan
        with open_weights(plan, path, weights) as held:
            signature = signature_reasons(policy, path, file, held)
            ahead.wait()
            raise_all([*signature, *target_reasons(plan, None), *held.faults(plan, digests=False)])
            if policy is not None:
                held.compare_with(plan)
            player = _player(plan, held, warm, budget_bytes)
        try:
            blobs.settle()
        except BaseException:
            player.close()
            raise
        with ExitStack() as undo:
            loaded = undo.enter_context(LoadedPlan(plan, player))
            loaded.take_lanes(lanes - 1)
            undo.pop_all()
        return loaded


def _reading(
    path: str | os.PathLike[str], policy: Policy | None, ahead: "_Ahead"
) -> AbstractContextManager[tuple[PlanFile, Blobs]]:
    return reading_plan(path, decompress=decompress, hashed=policy is not None, begin=ahead.begin)


class _Ahead:
    """What every load on CUDA needs, done by two threads while the plan is read: the device's context, which is kept
    until the load is over, and the imports of the player. Nothing of the plan is used, and nothing is allocated for it.
    Whatever stands in the way is met again on the load's own thread, and told there."""

    def __init__(self) -> None:
        self._threads: list[Thread] = []
        self._held = ExitStack()

    def begin(self, target: str) -> None:
        """Begin, if the plan that is read turns out to be for CUDA."""
        if target == "cuda":
            for work in (self._make_context, self._import_player):
                thread = Thread(target=work)
                with suppress(RuntimeError):  # the system has no thread to give: then this is not done ahead
                    thread.start()
                    self._threads.append(thread)

    def wait(self) -> None:
        """Wait for the end."""
        for thread in self._threads:
            thread.join()

    def _make_context(self) -> None:
        with suppress(Exception):
            from cadence_runtime.cuda import driver as door

            driver = door.system_driver()
            driver.open(0)
            self._held.callback(driver.close)

    def _import_player(self) -> None:
        with suppress(Exception):
            import cadence_runtime.cuda.player  # noqa: F401

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wait()
        self._held.close()


def _player(plan: Plan, weights: WeightsFile, warm: bool, budget_bytes: int | None) -> Player:
    if plan.target == "cpu":
        from cadence_runtime.cpu.player import CpuPlayer

        return CpuPlayer(plan, weights.tensor)
    from cadence_runtime.cuda import driver as door
    from cadence_runtime.cuda.player import CudaPlayer

    driver = door.system_driver()
    driver.open(0)
    try:
        return CudaPlayer(plan, driver, weights.pieces, warm=warm, budget_bytes=budget_bytes)
    except BaseException:
        driver.close()
        raise
