"""Results that torch allocates and the model sees under another dtype: complex as real, floats as their bits."""

import pytest

from cadencec.verify import verify_loaded
from tests.plan.models import STEP, compiled, loaded

BODY = "regions: {h: {shape: [2, 4]}}" + STEP

MODEL = """
class Model:
    def init_state(self):
        return {{"h": torch.zeros(2, 4)}}

    def step(self, s, x):
        h = {expression}
        return {{"h": h + s["h"]}}, h

def build():
    return Model()
"""

EXPRESSIONS = {
    "complex as real": "torch.view_as_real(torch.fft.fft(x))[..., 1]",
    "complex as real, part of it": "torch.view_as_real(torch.fft.fft(x)[:, 1:3]).reshape(2, 4) * 2",
    "floats as bits": "torch.nn.functional.conv1d(x, torch.ones(2, 2, 1)).view(torch.int32).bitwise_and(-16).float()",
}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_a_result_seen_under_another_dtype_replays(tmp_path, expression):
    spec, done = compiled(tmp_path, BODY, MODEL.format(expression=expression))
    with loaded(done.plan) as plan:
        assert verify_loaded(plan, spec, events=12, walks=1).differences == ()
