"""Spec -> Timeline: the configurations that can occur, the demand of every region, and what is proven of both."""

from cadencec.timeline.build import LIMIT, build
from cadencec.timeline.timeline import Cycle, Demand, Finding, StageKey, Timeline, Transition

__all__ = ["LIMIT", "Cycle", "Demand", "Finding", "StageKey", "Timeline", "Transition", "build"]
