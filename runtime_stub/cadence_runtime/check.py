"""Would a plan load here? All reasons at once, before anything is allocated.

ok             loads and replays bit for bit
suboptimal     loads and replays bit for bit, but not as well as it could
incompatible   does not load; every reason is listed
"""

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from cadence_runtime.errors import CadenceError, ErrorList, IncompatibleError
from cadence_runtime.format.cuda import CudaPart
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.reader import PlanFile, read_plan_file
from cadence_runtime.frozen import frozen
from cadence_runtime.policy import Policy, signature_faults
from cadence_runtime.weights import WeightsFile, open_weights
from cadence_runtime.zstd import decompress

if TYPE_CHECKING:
    from cadence_runtime.cuda.driver import DeviceInfo


@frozen
class CheckReport:
    """`reasons` are what makes a plan incompatible, `remarks` what makes it suboptimal."""

    plan: Plan | None
    reasons: tuple[CadenceError, ...]
    remarks: tuple[str, ...] = ()

    @property
    def verdict(self) -> OneOf["ok", "suboptimal", "incompatible"]:
        """The answer in one word."""
        if self.reasons:
            return "incompatible"
        return "suboptimal" if self.remarks else "ok"


def open_plan(path: str | os.PathLike[str]) -> Plan:
    """Read and validate a plan file."""
    return open_file(path, None).plan


def open_file(path: str | os.PathLike[str], policy: Policy | None) -> PlanFile:
    """Read and validate a plan file, with its digest where a policy asks for it."""
    return read_plan_file(path, decompress=decompress, hashed=policy is not None)


def check(
    path: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    target: str | None = None,
    full: bool = False,
    policy: Policy | None = None,
) -> CheckReport:
    """Read a plan and compare it with this machine. `full` reads every byte of the weights file, and so does a policy.
    Raises UsageError for a policy that cannot be used."""
    try:
        file = open_file(path, policy)
    except ErrorList as errors:
        return CheckReport(None, errors.errors)
    except CadenceError as error:
        return CheckReport(None, (error,))
    plan = file.plan
    with open_weights(plan, path, weights) as held:
        signature = signature_reasons(policy, path, file, held)
        faults = held.faults(plan, digests=full or policy is not None)
        reasons = (*signature, *target_reasons(plan, target), *faults)
        return CheckReport(plan, reasons, () if reasons else tuple(target_remarks(plan)))


def signature_reasons(
    policy: Policy | None, path: str | os.PathLike[str], file: PlanFile, weights: WeightsFile
) -> Iterator[CadenceError]:
    """Yield why a policy does not trust a plan and its weights; nothing of weights that cannot be read, which is a
    reason of its own."""
    if policy is not None and weights.fault is None:
        try:
            digests = file_digests(path, file, weights)
        except IncompatibleError as unreadable:
            yield unreadable
        else:
            yield from signature_faults(policy, path, digests)


def file_digests(path: str | os.PathLike[str], file: PlanFile, weights: WeightsFile) -> dict[str, str]:
    """Return what a signature covers: the names of a plan that was read with its digest and of its weights file, each
    with its sha256. Raises IncompatibleError CAD6003."""
    plan = {os.path.basename(os.fspath(path)): str(file.sha256)}
    if weights.path is None:
        return plan
    return plan | {os.path.basename(weights.path): weights.sha256()} | plan


def target_reasons(plan: Plan, target: str | None) -> Iterator[CadenceError]:
    """Yield why the machine, as it is now, does not run the plan's target."""
    if target is not None and target != plan.target:
        yield IncompatibleError(
            "CAD6001",
            "the plan is for another target",
            expected=f"`{target}`",
            got=f"`{plan.target}`",
            hint="compile the spec for this target",
        )
    elif plan.target == "cpu":
        yield from _cpu_reasons(plan)
    elif plan.cuda is not None:
        yield from _cuda_reasons(plan, plan.cuda)


def _cpu_reasons(plan: Plan) -> Iterator[CadenceError]:
    from cadence_runtime.cpu.check import op_faults
    from cadence_runtime.cpu.environment import environment
    from cadence_runtime.cpu.numerics import applied, unknown_values

    unknown = list(unknown_values(plan.provenance.numerics))
    yield from unknown
    if not unknown:
        with applied(plan.provenance.numerics):
            here = dict(environment())
        yield from environment_reasons(dict(plan.provenance.environment), here)
    yield from op_faults(plan)


def _cuda_reasons(plan: Plan, part: CudaPart) -> Iterator[CadenceError]:
    from cadence_runtime.cuda.compatibility import device_reasons

    try:
        info = _device()
    except CadenceError as error:
        yield error
        return
    yield from device_reasons(plan, part, info)


def target_remarks(plan: Plan) -> Iterator[str]:
    """Yield what is not as good as it could be on this machine, which has no reasons against the plan."""
    if plan.cuda is not None:
        from cadence_runtime.cuda.needs import device_remarks

        yield from device_remarks(plan, plan.cuda, _device())


def _device() -> "DeviceInfo":
    """Return what the device of this machine is like. Raises DeviceError."""
    from cadence_runtime.cuda import driver as door

    driver = door.system_driver()
    try:
        return driver.open(0)
    finally:
        driver.close()


def environment_reasons(wanted: Mapping[str, str], here: Mapping[str, str]) -> Iterator[IncompatibleError]:
    """Yield one reason for each difference of environments: CPU kernels, and so bits, depend on all of it."""
    for name in sorted(set(wanted) | set(here)):
        if wanted.get(name) != here.get(name):
            yield IncompatibleError(
                "CAD6002",
                f"`{name}` differs from where the plan was compiled",
                expected=wanted.get(name, "not set"),
                got=here.get(name, "not set"),
                hint="compile the plan on a machine like this one: another environment gives other bits",
            )
