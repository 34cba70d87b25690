"""Times the reading of a weights file of 480 MB from the page cache: `python scripts/bench_weights.py`.

Once tensor by tensor, as a CPU plan takes them, and once in pieces by several threads, as a CUDA plan does. Nothing is
copied to a device.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cadence_runtime.threads import side_by_side
from cadence_runtime.weights import WeightsFile

TENSORS, TENSOR_BYTES, ROUNDS = 12, 40_000_000, 7
NAMES = [f"layers.{index}.weight" for index in range(TENSORS)]


def write(path: Path) -> None:
    """Write a safetensors file of random bytes."""
    places = {name: [index * TENSOR_BYTES, (index + 1) * TENSOR_BYTES] for index, name in enumerate(NAMES)}
    header = {name: {"dtype": "U8", "shape": [TENSOR_BYTES], "data_offsets": place} for name, place in places.items()}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _ in NAMES:
            file.write(os.urandom(TENSOR_BYTES))


def told(action: Callable[[str], int], threads: int) -> str:
    """Return what it takes to read every tensor by an action that returns how many bytes it read."""
    found = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        if sum(side_by_side(action, NAMES, threads)) != TENSORS * TENSOR_BYTES:
            raise SystemExit("not every byte was read")
        found.append(time.perf_counter() - start)
    lower, middle, upper = statistics.quantiles(found, n=4)
    return f"{middle:.3f} s (quartiles {lower:.3f} to {upper:.3f})"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        write(path)
        with WeightsFile(str(path)) as weights:
            print(f"tensor by tensor, one thread   {told(lambda name: len(weights.tensor(name)), 1)}")
            for threads in (1, 2, 4):
                pieces = told(lambda name: sum(map(len, weights.pieces(name))), threads)
                print(f"in pieces, {threads} thread{'s' if threads > 1 else ' '}           {pieces}")


if __name__ == "__main__":
    main()
