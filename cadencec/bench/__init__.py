"""Compares the replay of a plan with the stock model, in time."""

from cadencec.bench.bench import Request, bench_file
from cadencec.bench.report import Bench, render, to_json

__all__ = ["Bench", "Request", "bench_file", "render", "to_json"]
