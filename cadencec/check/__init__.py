"""What `cadencec check` says: whether a plan would load here, and every reason."""

from typing import Any

from cadence_runtime import Policy, check
from cadence_runtime.check import CheckReport
from cadence_runtime.errors import IncompatibleError, UsageError

__all__ = ["CheckReport", "check_file", "exit_code", "render", "to_json"]


def check_file(
    plan: str,
    *,
    weights: str | None = None,
    target: str | None = None,
    full: bool = False,
    policy: str | None = None,
) -> CheckReport:
    """Compare a plan file with this machine, and its signature with the keys in the file `policy`. Raises UsageError
    where there is no file to read."""
    trusted = Policy.of_file(policy) if policy else None
    report = check(plan, weights=weights, target=target, full=full, policy=trusted)
    for reason in report.reasons:
        if isinstance(reason, UsageError):
            raise reason
    return report


def exit_code(report: CheckReport) -> int:
    """Return 0, or 3 for a plan that does not load here."""
    return IncompatibleError.exit_code if report.reasons else 0


def render(report: CheckReport) -> str:
    """Return the verdict and every reason as text."""
    return "\n".join([report.verdict, *(reason.render() for reason in report.reasons), *report.remarks])


def to_json(report: CheckReport) -> dict[str, Any]:
    """Return the verdict and every reason as an object."""
    names = ("code", "what", "expected", "got", "at", "hint")
    reasons = [{name: getattr(reason, name) for name in names} for reason in report.reasons]
    return {"verdict": report.verdict, "reasons": reasons, "remarks": list(report.remarks)}
