"""Recording on a CUDA device: host constants, devices as literals, generators, and what must not leave the device."""

import pytest
import torch
from torch import nn

from cadence_runtime.errors import TraceError
from cadence_runtime.format.tape import Literal
from cadencec.passes.pipeline import optimise
from cadencec.trace.recorder import collect_weights
from tests.trace.stages import check_replay, trace

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda", 0)


def x() -> torch.Tensor:
    return torch.linspace(-1, 1, 8, device=CUDA)


def test_scalars_on_the_host_stay_there():
    def step(s, x):
        return {"h": s["h"] * torch.tensor(0.5) + x}, [x / torch.tensor([2.0, 4.0]).max()]

    recording = check_replay(step, {"h": x()}, x(), device=CUDA)
    tape = optimise(recording, collect_weights(None), device=CUDA).tape
    hosts = [storage for storage in tape.storages if storage.host]
    assert [storage.kind for storage in hosts] == ["constant", "constant"]


def test_host_tables_are_moved_once_at_compile_time():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.window = torch.hann_window(8)

    model = Model()

    def step(s, x):
        return s, [x * model.window.to(x.device) + torch.arange(8).to(x.device)]

    recording = check_replay(step, {}, x(), model=model, device=CUDA)
    tape = optimise(recording, collect_weights(model), device=CUDA).tape
    assert [op.name for op in tape.ops] == ["aten::mul.Tensor", "aten::add.Tensor"]
    assert not any(storage.host for storage in tape.storages)


def test_devices_are_the_target_or_the_host():
    def step(s, x):
        return s, [x + torch.ones(8, device=x.device) + torch.zeros(()), torch.zeros(3, device="cuda")]

    recording = check_replay(step, {}, x(), device=CUDA, outputs=2)
    devices = [dict(op.kwargs)["device"] for op in recording.tape.ops if "device" in dict(op.kwargs)]
    assert devices == [Literal("device", name) for name in ("target", "cpu", "target")]


def test_draws_follow_the_device_generator():
    def step(s, x):
        return s, [x + torch.randn_like(x) + torch.rand(8, device=x.device), torch.randint(0, 9, (4,), device=x.device)]

    assert check_replay(step, {}, x(), device=CUDA, outputs=2).tape.draws


def test_kernels_of_libraries():
    conv = nn.Conv1d(2, 4, 3).to(CUDA)
    linear = nn.Linear(4, 4).to(CUDA)
    torch.backends.cudnn.deterministic = True

    def step(s, x):
        y = conv(torch.cat([s["tail"], x.view(1, 2, 4)], 2))
        with torch.autocast("cuda", torch.float16):
            z = linear(y.transpose(1, 2))
        spec = torch.fft.rfft(z.float(), n=16)
        return {"tail": x.view(1, 2, 4)[:, :, 2:]}, [torch.fft.irfft(spec * spec.conj()), z]

    model = nn.ModuleList([conv, linear])
    check_replay(step, {"tail": torch.zeros(1, 2, 2, device=CUDA)}, x(), model=model, device=CUDA, outputs=2)


def test_an_lstm_with_flat_weights():
    lstm = nn.LSTM(4, 8).to(CUDA)

    def step(s, x):
        y, (h, c) = lstm(x.view(2, 1, 4), (s["h"], s["c"]))
        return {"h": h, "c": c}, [y]

    zeros = torch.zeros(1, 1, 8, device=CUDA)
    check_replay(step, {"h": zeros, "c": zeros.clone()}, x(), model=lstm, device=CUDA)


@pytest.mark.parametrize(
    "move", [lambda x: x.cpu(), lambda x: x.to("cpu") + 1, lambda x: x + torch.randn(8).to(x.device)]
)
def test_changing_data_must_not_leave_the_device(move):
    with pytest.raises(TraceError, match="CAD3107"):
        trace(lambda s, x: (s, [move(x).to(x.device)]), {}, x(), device=CUDA)


def test_host_reads_are_refused_and_constant_ones_are_not():
    with pytest.raises(TraceError, match="CAD3101"):
        trace(lambda s, x: (s, [x * 2 if x.sum() > 0 else x]), {}, x(), device=CUDA)

    def step(s, x):
        table = torch.arange(8, device=x.device)
        return s, [x * 2 if table.sum() > 3 and table.tolist()[1] == 1 else x]

    check_replay(step, {}, x(), device=CUDA)
