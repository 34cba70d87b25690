"""Times one step of Silero VAD on one thread: the stock model and the replay of its plan, in turns, in one run.

Blocks of the two alternate, so that whatever else the machine does falls on both. Each pair of blocks gives one ratio
of medians; what is reported is their median, with its quartiles. Every output of a block is compared with the stock
model's, bit for bit. Exit code 3 where bits differ, 1 where the bar is missed.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from cadence_runtime import load
from cadencec.compile.job import Request, compile_file
from cadencec.models.silero_vad import CHUNK_SAMPLES, SAMPLE_RATE_HZ, released

SPEC = Path(__file__).parents[1] / "specs" / "silero_vad.yaml"
PAIRS, STEPS, WARM_UP_STEPS = 60, 60, 200
BAR = 0.9


def median_us(
    step: Callable[[torch.Tensor], torch.Tensor], chunks: list[torch.Tensor]
) -> tuple[float, list[torch.Tensor]]:
    """Return the median time of a step in microseconds, and what the steps gave."""
    times_ns, outputs = [], []
    for chunk in chunks:
        start = time.perf_counter_ns()
        output = step(chunk)
        times_ns.append(time.perf_counter_ns() - start)
        outputs.append(output)
    return statistics.median(times_ns) / 1000, outputs


def main() -> int:
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    model = released()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        plan = compile_file(
            Request(str(SPEC), str(Path(folder) / "silero.cpu.plan")), lambda *_: None
        ).written.plan_file
        with load(plan) as loaded, loaded.session() as session:
            ratios, stock_us, replay_us = [], [], []
            for pair in range(PAIRS + 1):
                steps = STEPS if pair else WARM_UP_STEPS
                chunks = [torch.randn(1, CHUNK_SAMPLES, generator=random) for _ in range(steps)]
                one, expected = median_us(lambda x: model(x, SAMPLE_RATE_HZ), chunks)
                other, got = median_us(lambda x: session.push("chunk", x=x)["speech"], chunks)
                if not all(map(torch.equal, got, expected)):
                    print("the replay differs from the stock model")
                    return 3
                if pair:
                    ratios.append(other / one)
                    stock_us.append(one)
                    replay_us.append(other)
    lower, middle, upper = statistics.quantiles(ratios, n=4)
    print(f"stock step   {statistics.median(stock_us):7.1f} us")
    print(f"replay       {statistics.median(replay_us):7.1f} us")
    print(
        f"ratio        {middle:.3f}  (quartiles {lower:.3f} to {upper:.3f}, {PAIRS} pairs of {STEPS} steps, bits equal)"
    )
    print(f"bar          {BAR}: {'held' if middle <= BAR else 'missed'}")
    return 0 if middle <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
