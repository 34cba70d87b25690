"""Many sessions with deadlines: an executor that takes pushes in the order of their deadlines, over lanes."""

from cadence_runtime.live.executor import Executor, LiveSession
from cadence_runtime.live.jobs import LATE, Late, Report

__all__ = ["LATE", "Executor", "Late", "LiveSession", "Report"]
