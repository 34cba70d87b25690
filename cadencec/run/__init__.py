"""What `cadencec run` does: drives a session of a plan from a file, and writes what comes out."""

from cadencec.run.drive import Request, Summary, render, run_file, to_json

__all__ = ["Request", "Summary", "render", "run_file", "to_json"]
