"""Times `cadencec diff` on two plans of 1,000 keys and 300 MB, in a process of its own, with the memory that it takes.

`inspect` and `--help` are timed beside it: `inspect` by its own time, without Python's start and imports. Exit code 1
where a bar is missed. The plans are made by hand (`tests/format/plans.py`); their blobs are random, as weights are.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cadence_runtime.format.plan import Plan  # noqa: E402
from cadence_runtime.format.writer import write_plan  # noqa: E402
from cadence_runtime.zstd import compress  # noqa: E402
from tests.format.plans import example  # noqa: E402

KEYS, BLOB_BYTES, ROUNDS = 1000, 300_000_000, 5
DIFF_S, MEMORY_BYTES, INSPECT_S, HELP_S = 2.0, 300_000_000, 0.3, 0.3

COMMAND = """
import atexit, re, sys
from pathlib import Path
from cadencec.cli import main
def tell():
    print(re.search("VmHWM: *\\t* *([0-9]+)", Path("/proc/self/status").read_text())[1], file=sys.stderr)
atexit.register(tell)
main()
"""

INSPECT = """
import sys, time
from cadencec.inspect import inspect, render, to_json
start = time.perf_counter()
render(inspect(sys.argv[1]))
print(time.perf_counter() - start)
"""


def plan(compiler: str) -> Plan:
    """Return a plan with a large constant that no tape reads."""
    small = example(steps=KEYS, width=64)
    return replace(small, provenance=replace(small.provenance, compiler=compiler))


def run(*args: str) -> tuple[float, int]:
    """Return the seconds that a command line takes from its start, and the highest resident memory of its process."""
    start = time.perf_counter()
    command = [sys.executable, "-c", COMMAND, *args]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, int(done.stderr.split()[-1]) * 1024


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        sides = [str(Path(folder) / f"{name}.plan") for name in "ab"]
        for path, compiler in zip(sides, ("1", "2"), strict=True):
            blob = os.urandom(BLOB_BYTES)
            found = plan(compiler)
            write_plan(path, replace(found, blobs=(*found.blobs, blob)), compress=compress)
        runs = [run("diff", *sides) for _ in range(ROUNDS)]
        own = [
            float(subprocess.run([sys.executable, "-c", INSPECT, sides[0]], capture_output=True, check=True).stdout)
            for _ in range(ROUNDS)
        ]
        helped = [run("--help")[0] for _ in range(ROUNDS)]
    diff_s, memory = statistics.median(seconds for seconds, _ in runs), runs[0][1]
    inspect_s, help_s = statistics.median(own), statistics.median(helped)
    print(f"diff of two plans      {diff_s:6.2f} s (at most {DIFF_S}), {memory / 1e6:.0f} MB (at most 300)")
    print(f"inspect, its own time  {inspect_s:6.2f} s (at most {INSPECT_S})")
    print(f"--help                 {help_s:6.2f} s (at most {HELP_S})")
    return int(diff_s > DIFF_S or memory > MEMORY_BYTES or inspect_s > INSPECT_S or help_s > HELP_S)


if __name__ == "__main__":
    sys.exit(main())
