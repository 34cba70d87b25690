"""The thin runtime: load a plan, open sessions, push events. It imports neither the compiler nor any model."""

from cadence_runtime.capacity import Capacity
from cadence_runtime.check import check
from cadence_runtime.errors import CadenceError
from cadence_runtime.load import load
from cadence_runtime.policy import Policy
from cadence_runtime.session import LoadedPlan, Outputs, Session
from cadence_runtime.times import Times, measure

__all__ = [
    "CadenceError",
    "Capacity",
    "LoadedPlan",
    "Outputs",
    "Policy",
    "Session",
    "Times",
    "check",
    "load",
    "measure",
]
