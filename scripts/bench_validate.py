"""Times the validation of a plan of 1,000 keys and 300 MB: its structure, and all of it with the digests of 32 blobs.

Beside it stands what hashlib takes for as many bytes in memory, on one thread. Exit code 1 where the structure takes
more than 0.3 s. The plan is made by hand (`tests/format/plans.py`); its blobs are random, as weights are.
"""

import hashlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cadence_runtime.format.outline import read_outline  # noqa: E402
from cadence_runtime.format.reader import read_plan  # noqa: E402
from cadence_runtime.format.writer import write_plan  # noqa: E402
from cadence_runtime.zstd import compress, decompress  # noqa: E402
from tests.format.plans import example  # noqa: E402

KEYS, BLOBS, BLOB_BYTES, ROUNDS = 1000, 32, 9_375_000, 5
STRUCTURE_S = 0.3


def median_s(action: Callable[[], object]) -> float:
    """Return the median time of an action."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> int:
    plan, data = example(steps=KEYS, width=64), [os.urandom(BLOB_BYTES) for _ in range(BLOBS)]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "large.plan")
        write_plan(path, replace(plan, blobs=(*plan.blobs, *data)), compress=compress)
        structure_s = median_s(lambda: read_outline(path, decompress=decompress))
        whole_s = median_s(lambda: read_plan(path, decompress=decompress))
    hash_s = median_s(lambda: [hashlib.sha256(blob).digest() for blob in data])
    cores = len(os.sched_getaffinity(0))
    ratio = (whole_s - structure_s) / (hash_s / cores)
    print(f"structure       {structure_s:5.2f} s (at most {STRUCTURE_S})")
    print(f"whole           {whole_s:5.2f} s; hashlib alone {hash_s:.2f} s on one thread, {cores} cores")
    print(f"beyond it       {ratio:5.2f} times hashlib on all cores")
    return int(structure_s > STRUCTURE_S)


if __name__ == "__main__":
    sys.exit(main())
