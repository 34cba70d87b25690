"""What `cadencec compile` does: reads a spec file, compiles it, writes plan and weights, and sums up."""

from cadencec.compile.job import Report, Request, compile_file
from cadencec.compile.summary import render, to_json

__all__ = ["Report", "Request", "compile_file", "render", "to_json"]
