"""Modes that see every op, and torch's compiler."""

import subprocess
import sys
import warnings

import torch

from tests.trace.stages import trace

RECORD = """
import sys
import torch
from cadencec.trace.recorder import collect_weights, record

def call():
    return [x.sin() + torch.ones(2)], {}

x = torch.zeros(2)
record("step", call, {"x": x}, {}, collect_weights(None), names=["y"])
print("torch._dynamo" in sys.modules)
"""


def test_recording_does_not_import_dynamo() -> None:
    done = subprocess.run([sys.executable, "-c", RECORD], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_compiled_function_is_recorded_op_by_op_and_the_recorder_is_not_compiled() -> None:
    function = torch.compile(lambda x: x.sin() * 2, backend="eager")
    with torch.no_grad():
        function(torch.zeros(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tape = trace(lambda s, x: (s, [function(x)]), {}, torch.linspace(0, 1, 4)).tape
    assert [op.name for op in tape.ops] == ["aten::sin", "aten::mul.Tensor"]
