"""Silero VAD 6.2.3, the 16 kHz half: the released TorchScript network with its state passed explicitly.

The released module keeps the last 64 samples and the LSTM's `h, c` in attributes of its own. Its `forward` comes to
three lines at 16 kHz, and those are all that is written again here; the network itself is the released one:

    context (1, 64) ++ x (1, 512)  ->  x1 (1, 576)  ->  _model(x1, state)  ->  speech (1, 1), state (2, 1, 128)
                                         x1[:, -64:] is the next context

`stock()` is the untouched released model, the oracle that this adapter must equal bit for bit.
"""

import torch
from torch import Tensor, nn

SAMPLE_RATE_HZ = 16_000
CHUNK_SAMPLES = 512
CONTEXT_SAMPLES = 64
WARM_UP_CALLS = 3

State = dict[str, Tensor]


class SileroVad(nn.Module):
    """`step` takes `x` (1, 512) float32 and returns the probability of speech in it, (1, 1) float32."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        # Named as in the release, so that weights keep their published names.
        self._model = network

    def init_state(self) -> State:
        """Return the state of a session that has heard nothing: `context` (1, 64) and `lstm` (2, 1, 128), zeros."""
        return {"context": torch.zeros(1, CONTEXT_SAMPLES), "lstm": torch.zeros(2, 1, 128)}

    def reset(self, state: State) -> State:
        """Return the state at the start."""
        return self.init_state()

    def step(self, state: State, x: Tensor) -> tuple[State, Tensor]:
        """Hear one chunk. The new context is a view of the samples heard, as in the released model."""
        heard = torch.cat([state["context"], x], 1)
        speech, lstm = self._model(heard, state["lstm"])
        return {"context": heard[..., -CONTEXT_SAMPLES:], "lstm": lstm}, speech


def build() -> SileroVad:
    """Return the adapter over a fresh copy of the released network."""
    model = SileroVad(stock()._model).eval()
    # TorchScript rewrites a graph over its first calls (and compares constants while it does): only later calls are
    # what the model does from then on.
    with torch.no_grad():
        for _ in range(WARM_UP_CALLS):
            model.step(model.init_state(), torch.zeros(1, CHUNK_SAMPLES))
    return model


def stock() -> torch.jit.ScriptModule:
    """Return the released model; `stock()(x, 16000)` is one step, with the state kept inside."""
    # Imported here: the package sets torch's thread count when it is imported, and it is put back.
    threads = torch.get_num_threads()
    from silero_vad import load_silero_vad

    model: torch.jit.ScriptModule = load_silero_vad()
    torch.set_num_threads(threads)
    return model
