"""The thin runtime: load a plan, open sessions, push events. It imports neither the compiler nor any model."""

from cadence_runtime.check import check
from cadence_runtime.errors import CadenceError
from cadence_runtime.load import load
from cadence_runtime.policy import Policy
from cadence_runtime.session import LoadedPlan, Outputs, Session

__all__ = ["CadenceError", "LoadedPlan", "Outputs", "Policy", "Session", "check", "load"]
