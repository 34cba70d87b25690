"""What `cadencec explain` does: everything that follows from a clock spec alone, without running a model."""

from cadencec.explain.explanation import Explanation, exit_code, explain
from cadencec.explain.plain import to_json
from cadencec.explain.render import render

__all__ = ["Explanation", "exit_code", "explain", "render", "to_json"]
