"""Kernels called directly: the bits of the op, over the shapes of streaming convolutions."""

import pytest
import torch
from torch import nn

from cadencec.passes.pipeline import optimise
from cadencec.trace.interpret import interpret
from cadencec.trace.recorder import collect_weights, record


def interpreted(model: nn.Module, x: torch.Tensor, switches: frozenset[str]) -> tuple[list[str], torch.Tensor]:
    weights = collect_weights(model)
    recording = record("step", lambda: ((torch.relu(model(x)),), {}), {"x": x}, {}, weights, names=["y"])
    program = optimise(recording, weights, switches)
    fresh = torch.randn_like(x)
    (y,), _ = interpret(program.tape, {"x": fresh}, {}, weights.tensor, program.constants.__getitem__)
    assert torch.equal(y, torch.relu(model(fresh)))
    return [op.name for op in program.tape.ops], y


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 1])
def test_a_small_convolution_is_called_directly_with_equal_bits(bias: bool, stride: int, padding: int) -> None:
    torch.manual_seed(0)
    model = nn.Conv1d(16, 8, 3, stride, padding, bias=bias).requires_grad_(False)
    names, y = interpreted(model, torch.randn(1, 16, 10), frozenset({"dead", "kernels"}))
    assert names == ["aten::_slow_conv2d_forward", "aten::clamp_min"]
    assert y.unique().numel() > 1


@pytest.mark.parametrize(
    "model", [nn.Conv1d(16, 16, 3, dilation=2), nn.Conv1d(16, 16, 3, groups=4), nn.ConvTranspose1d(16, 16, 4, 2)]
)
def test_other_convolutions_keep_their_op(model: nn.Module) -> None:
    names, _ = interpreted(model.requires_grad_(False), torch.randn(1, 16, 10), frozenset({"dead", "kernels"}))
    assert names == ["aten::convolution", "aten::clamp_min"]


def test_the_switch_leaves_the_ops_as_recorded() -> None:
    model = nn.Conv1d(16, 8, 3).requires_grad_(False)
    names, _ = interpreted(model, torch.randn(1, 16, 10), frozenset({"dead"}))
    assert names == ["aten::convolution", "aten::relu"]


def test_one_column_whose_strides_say_that_channels_lie_last_keeps_the_op() -> None:
    torch.manual_seed(0)
    model = nn.Conv1d(4, 4, 3, padding=1).requires_grad_(False)
    column = torch.randn(1, 4).t()[None]
    assert (column.is_contiguous(), column.stride()) == (True, (4, 1, 4))
    names, _ = interpreted(model, column, frozenset({"dead", "kernels"}))
    assert names == ["aten::convolution", "aten::clamp_min"]
    names, _ = interpreted(model, torch.randn(1, 4, 1), frozenset({"dead", "kernels"}))
    assert names == ["aten::_slow_conv2d_forward", "aten::clamp_min"]
