"""Step-Audio 2 mini and MiniCPM-o 4.5 token2wav: speech tokens to 24 kHz speech, call by call, for one voice.

Package `stepaudio2-minicpmo` 0.1.1, extra `step-audio2`. `build` is what specs name; `stock` is the oracle that it
must equal bit for bit. With the same options both have the same weights, voice and noise: all random, from a seed.
"""

import torch

from cadence_runtime.errors import TraceError
from cadencec.models.step_audio2.adapter import KEPT_FRAMES, LONGEST_CALL_TOKENS, StepAudio2
from cadencec.models.step_audio2.released import Released, Size, make
from cadencec.models.step_audio2.stock import Stock

__all__ = ["build", "stock"]


def build(
    n_timesteps: int = 10,
    P: int = 300,  # noqa: N803
    depth: int = 16,
    heads: int = 8,
    width: int = 512,
    layers: int = 6,
    up_layers: int = 4,
    channels: int = 512,
) -> StepAudio2:
    """Return the decoder with `n_timesteps` Euler steps, for a voice prompt of `P` mel frames (50 a second).

    The other options are sizes of the networks, see `Size`; smaller ones are for tests. Raises TraceError CAD3408
    without the package and CAD3409 for an odd `P`.
    """
    return StepAudio2(_released(Size(depth, heads, width, layers, up_layers, channels), P), n_timesteps)


def stock(device: str = "cpu", *, n_timesteps: int = 10, P: int = 300, **sizes: int) -> Stock:  # noqa: N803
    """Return a session of the released decoder on a device, with the options of `build`; `start` runs the prompt."""
    size = Size(**sizes)
    return Stock(_released(size, P), size, n_timesteps, _longest(P), torch.device(device))


def _longest(prompt_frames: int) -> int:
    """Return the most frames that attention spans in one call."""
    return prompt_frames + KEPT_FRAMES + 2 * LONGEST_CALL_TOKENS


def _released(size: Size, frames: int) -> Released:
    if frames % 2 or frames < 2:
        raise TraceError(
            "CAD3409",
            f"a voice prompt of {frames} mel frames does not fit the decoder",
            expected="an even number of frames above 0: two for each token",
            got=f"`P: {frames}`",
            hint=f"cut the prompt to {max(frames - frames % 2, 2)} frames",
        )
    return make(size, frames, _longest(frames))
