"""Times recording: an op of a first recording and of a later one, and a first and a later key of one topology, whole.

The model is a stack of attention layers over a growing cache, so small that only bookkeeping counts. Its first key pays
for source lines, for the probe of determinism and for comparison on all tracks; later keys of the same ops follow its
template. A key's time is everything that `compile` does for it: recording, runs of the stock model, passes, comparison,
packing of scratch. Times are of the processor, so other work on the machine counts little. Exit code 1 where a bar is
missed.
"""

import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path
from textwrap import dedent

import torch

from cadencec.plan.compile import compile_spec
from cadencec.spec.load import parse_spec
from cadencec.trace.model import load_model
from cadencec.trace.recorder import collect_weights, record
from cadencec.trace.template import Template

LAYERS, KEYS, ROUNDS, RUNS = 16, 12, 7, 5
BAR_US, BAR_SHARE = 100, 1 / 3

MODEL = """
    import torch
    from torch import nn


    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

        def forward(self, x, cache):
            q, k, v = self.qkv(self.norm(x)).view(1, 1, 3, 4, 8).permute(2, 0, 3, 1, 4)
            cache = torch.cat([cache, torch.stack([k, v])], 3)
            weights = torch.softmax(q @ cache[0].transpose(-1, -2) / 8**0.5, -1)
            return x + self.out((weights @ cache[1]).transpose(1, 2).reshape(1, 1, 32)), cache


    class Model(nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(layers))

        def init_state(self):
            return [torch.zeros(2, 1, 4, 1, 8) for _ in self.layers]

        def step(self, state, x):
            new = []
            for layer, cache in zip(self.layers, state):
                x, cache = layer(x, cache)
                new.append(cache)
            return new, x


    def build(layers):
        return Model(layers).eval().requires_grad_(False)
"""

SPEC = f"""
cadence_spec: 1
model: {{name: layers, entry: "./model.py:build", options: {{layers: {LAYERS}}}}}
clocks: {{frame: 50 Hz}}
regions:
  cache: {{leaves: {[str(i) for i in range(LAYERS)]}, shape: [2, 1, 4, t, 8], clock: frame, start: 1, retain: grow}}
stages: {{step: {{inputs: {{x: {{dtype: float32}}}}, outputs: [y]}}}}
events: {{frame: {{inputs: {{x: [1, 1, 32]}}, advance: {{frame: 1}}, run: [step]}}}}
horizon: {KEYS} events
"""


def us_an_op(folder: Path) -> tuple[float, float]:
    """Return the median times of a recording by its number of ops: without a template, and along one."""
    model = load_model("./model.py:build", {"layers": LAYERS}, folder)
    weights = collect_weights(model.adapter)
    template: Template | None = None
    times: dict[bool, list[float]] = {False: [], True: []}
    for follows in (False, True) * ROUNDS:
        state, x = model.init_state(), torch.randn(1, 1, 32)
        assert isinstance(state, list)  # noqa: S101 - the model above

        def call(state: list[torch.Tensor] = state, x: torch.Tensor = x) -> tuple[list[object], dict[str, object]]:
            new, y = model.adapter.step(state, x)
            return [y], {str(i): leaf for i, leaf in enumerate(new)}

        leaves = {str(i): leaf for i, leaf in enumerate(state)}
        start = time.process_time()
        recording = record("step", call, {"x": x}, leaves, weights, names=["y"], template=template if follows else None)
        seconds = time.process_time() - start
        template = recording.template
        times[follows].append(seconds / sum(place is not None for place in template))
    first, later = (statistics.median(times[follows]) * 1e6 for follows in (False, True))
    return first, later


def key_seconds(folder: Path) -> list[float]:
    """Return the time of each key, in the order in which they are met: each state of the model leads to one."""
    marks: list[float] = []

    def note(phase: str, done: int, total: int) -> None:
        if phase == "trace":
            marks.append(time.process_time())

    compile_spec(parse_spec(SPEC, str(folder / "layers.yaml")), walk_events=1, progress=note)
    return [after - before for before, after in itertools.pairwise(marks)]


def main() -> int:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.py").write_text(dedent(MODEL))
        first, later = us_an_op(folder)
        runs = [key_seconds(folder) for _ in range(RUNS)]
    keys = [statistics.median(times) for times in zip(*runs, strict=True)]
    shares = [statistics.median(run[1:]) / run[0] for run in runs]
    spread = f"{min(shares):.3f} to {max(shares):.3f} in {RUNS} runs"
    print(f"recording an op, first           {first:6.1f} us (at most {BAR_US})")
    print(f"recording an op, by a template   {later:6.1f} us")
    print(f"share                            {later / first:6.3f} (at most {BAR_SHARE:.3f})")
    print(f"first key of a topology, whole   {keys[0] * 1e3:6.1f} ms")
    print(f"later keys, whole                {statistics.median(keys[1:]) * 1e3:6.1f} ms each")
    print(f"share                            {statistics.median(shares):6.3f}, {spread}")
    return int(first > BAR_US or later > BAR_SHARE * first)


if __name__ == "__main__":
    sys.exit(main())
