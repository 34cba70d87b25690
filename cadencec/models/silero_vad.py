"""Silero VAD 6.2.3, the 16 kHz half: the released TorchScript network with its state passed explicitly.

The released module keeps the last 64 samples and the LSTM's `h, c` in attributes of its own. Its `forward` comes to
three lines at 16 kHz, and those are all that is written again here; the network itself is the released one:

    context (1, 64) ++ x (1, 512)  ->  x1 (1, 576)  ->  _model(x1, state)  ->  speech (1, 1), state (2, 1, 128)
                                         x1[:, -64:] is the next context

`stock` is the untouched released model with its state inside, the oracle that this adapter must equal bit for bit.
"""

from typing import Any

import torch
from torch import Tensor, nn

from cadencec.models.events import unknown

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


class Stock:
    """One session of the released model, on one device."""

    variants = ("released",)

    def __init__(self, device: torch.device) -> None:
        self._released, self._device = released().to(device), device
        self.network: Any = self._released._model
        self.start()
        for _ in range(WARM_UP_CALLS):
            self.push("chunk", x=torch.zeros(1, CHUNK_SAMPLES))

    def published_name(self, name: str) -> str:
        """Return where the tensor of a checkpoint stands here."""
        return name.replace("_model.", "network.", 1)

    def start(self, variant: str = "released") -> None:
        """Begin a session: the network starts from nothing."""
        self._released.reset_states()

    def push(self, event: str, **inputs: Tensor) -> list[dict[str, Tensor]]:
        """Hear a `chunk` of `x` (1, 512) float32 and return its `speech` (1, 1), or `reset`."""
        if event == "reset":
            self._released.reset_states()
            return []
        if event != "chunk":
            raise unknown(event, ("chunk", "reset"))
        return [{"speech": self._released(inputs["x"].to(self._device), SAMPLE_RATE_HZ).cpu()}]

    def state(self) -> dict[str, Tensor]:
        """Return `context` (1, 64) and `lstm` (2, 1, 128). The released model makes both when it is first called."""
        context, lstm = self._released._context, self._released._state
        return {
            "context": context if context.numel() else torch.zeros(1, CONTEXT_SAMPLES),
            "lstm": lstm if lstm.numel() else torch.zeros(2, 1, 128),
        }


def build() -> SileroVad:
    """Return the adapter over a fresh copy of the released network."""
    model = SileroVad(released()._model).eval()
    # TorchScript rewrites a graph over its first calls (and compares constants while it does): only later calls are
    # what the model does from then on.
    with torch.no_grad():
        for _ in range(WARM_UP_CALLS):
            model.step(model.init_state(), torch.zeros(1, CHUNK_SAMPLES))
    return model


def stock(device: str = "cpu") -> Stock:
    """Return a session of the released model on a device, warmed up as the adapter is."""
    with torch.no_grad():
        return Stock(torch.device(device))


def released() -> Any:
    """Return the released model, a ScriptModule; called with (x, 16000) it takes one step, with the state inside."""
    # Imported here: the package sets torch's thread count when it is imported, and it is put back.
    threads = torch.get_num_threads()
    from silero_vad import load_silero_vad

    model = load_silero_vad()
    torch.set_num_threads(threads)
    return model
