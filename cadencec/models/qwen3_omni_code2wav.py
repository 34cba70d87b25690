"""Qwen3-Omni code2wav: the released vocoder, a chunk of codes a step, with the codes that it looks back at as state.

The released modules keep nothing between calls. `chunked_decode` gives each call the last frames of context again, and
cuts what it said about them:

    codes (1, 16, t <= 25) ++ new (1, 16, n)  ->  code2wav  ->  wav[..., 1920 * t:]
                       [..., -25:] is the next context

A call of `t + n` frames gives 1920 (t + n) - 555 samples at the size of the release, since its transposed convolutions
trim both sides: a chunk is 555 samples short. That is how the released code speaks, and so does this.

`stock` is the untouched released model, called as `chunked_decode` calls it when codes come one chunk at a time: the
oracle that this adapter must equal bit for bit. A test holds it to `chunked_decode` over whole turns.
"""

import hashlib
import inspect
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import torch
from torch import Tensor, nn

from cadencec.models.events import unknown
from cadencec.models.packages import require, wrong

DISTRIBUTION, VERSION, EXTRA = "transformers", "5.24.0", "qwen"
TRANSCRIBED_SHA256 = "2fe800347edb617c1dc81f282e49d0ac84bad9fe62ec2b214211d184255348e4"
"""Of the source of `chunked_decode`. Versions come fast, and any with this loop will do; 5.17.0 has it."""

CONTEXT_FRAMES = 25
OTHER_PARTS = ("thinker", "talker")
"""Of the released checkpoint, before `code2wav`."""

State = dict[str, Tensor]

_SEED = 0


class Code2Wav(nn.Module):
    """`step` takes `new` (1, codebooks, n) int64 and returns `audio` (1, 1, samples) float32 within [-1, 1]."""

    random_weights = True

    def __init__(self, released: Any, context: int) -> None:
        super().__init__()
        # Named as in the release, so that weights keep their published names.
        self.code2wav = released
        self._context = context

    def published_name(self, name: str) -> str | None:
        """Return the name itself, or None for what other parts of the whole model run."""
        return None if name.partition(".")[0] in OTHER_PARTS else name

    def init_state(self) -> State:
        """Return the state of a session that has heard nothing: `codes` (1, codebooks, 0) int64."""
        return {"codes": torch.zeros(1, self.code2wav.config.num_quantizers, 0, dtype=torch.int64)}

    def step(self, state: State, new: Tensor) -> tuple[State, Tensor]:
        """Decode one chunk, as one turn of the loop in the released `chunked_decode`."""
        seen = state["codes"].shape[-1]
        codes = torch.cat([state["codes"], new], -1)
        audio = self.code2wav(codes)[..., seen * self.code2wav.total_upsample :]
        # A copy, so that its strides do not tell how many frames came before.
        return {"codes": codes[..., max(0, codes.shape[-1] - self._context) :].contiguous()}, audio


@dataclass(frozen=True, slots=True)
class Size:
    """The configuration; the defaults are those of the release. `width`, `heads` and `inner` (the size between the two
    halves of the feed-forward) are those of the transformer of `layers` layers that attends `window` frames, `channels`
    those of the decoder's first convolution; smaller ones are for tests."""

    num_quantizers: int = 16
    codebook_size: int = 2048
    layers: int = 8
    heads: int = 16
    width: int = 1024
    inner: int = 3072
    window: int = 72
    channels: int = 1536


def build(context: int = CONTEXT_FRAMES, **size: int) -> Code2Wav:
    """Return the vocoder with random weights, the same each time, that looks back at `context` frames; other options
    are those of `Size`. Raises TraceError CAD3408 without the package."""
    return Code2Wav(_released(Size(**size)), context).eval()


class Stock:
    """One session of the released model: `chunked_decode`, statement by statement, with all codes of the turn kept."""

    variants = ("released",)

    def __init__(self, code2wav: Any, left_context_size: int, device: torch.device) -> None:
        self.code2wav = code2wav.to(device)
        self._left_context_size, self._device = left_context_size, device
        self._codes = torch.zeros(0)
        self.start()

    def published_name(self, name: str) -> str | None:
        """Return the name itself, or None for what other parts of the whole model run."""
        return None if name.partition(".")[0] in OTHER_PARTS else name

    def start(self, variant: str = "released") -> None:
        """Begin a session, and so a turn."""
        self._codes = torch.zeros(1, self.code2wav.config.num_quantizers, 0, dtype=torch.int64, device=self._device)

    def push(self, event: str, **inputs: Tensor) -> list[dict[str, Tensor]]:
        """Decode a chunk of `frames`, the `last` one of a turn, or let a `turn` end."""
        if event not in ("frames", "last", "turn"):
            raise unknown(event, ("frames", "last", "turn"))
        heard = [] if event == "turn" else [{"audio": self._chunk(inputs["new"].to(self._device)).cpu()}]
        if event != "frames":
            self.start()
        return heard

    def state(self) -> dict[str, Tensor]:
        """Return `codes` (1, codebooks, t <= context): those that the next chunk looks back at."""
        return {"codes": self._codes[..., max(0, self._codes.shape[-1] - self._left_context_size) :]}

    def _chunk(self, new: Tensor) -> Tensor:
        start_index = self._codes.shape[-1]
        self._codes = torch.cat([self._codes, new], -1)
        context_size = self._left_context_size if start_index - self._left_context_size > 0 else start_index
        wav_chunk: Tensor = self.code2wav(self._codes[..., start_index - context_size :])
        return wav_chunk[..., context_size * self.code2wav.total_upsample :]


def stock(device: str = "cpu", context: int = CONTEXT_FRAMES, **size: int) -> Stock:
    """Return a session of the released model on a device, with the options of `build`."""
    return Stock(_released(Size(**size)), context, torch.device(device))


def _released(size: Size) -> Any:
    require(DISTRIBUTION, VERSION, EXTRA, others=True)
    from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import Qwen3OmniMoeCode2WavConfig
    from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoeCode2Wav

    _check_loop(Qwen3OmniMoeCode2Wav.chunked_decode)
    config = Qwen3OmniMoeCode2WavConfig(
        num_quantizers=size.num_quantizers,
        codebook_size=size.codebook_size,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        hidden_size=size.width,
        intermediate_size=size.inner,
        sliding_window=size.window,
        decoder_dim=size.channels,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        model: Any = Qwen3OmniMoeCode2Wav(config)
        _wake(model)
    return model.requires_grad_(False).eval()


def _check_loop(chunked_decode: Any) -> None:
    if hashlib.sha256(inspect.getsource(chunked_decode).encode()).hexdigest() != TRANSCRIBED_SHA256:
        got = f"version {metadata.version(DISTRIBUTION)}, with another `chunked_decode`"
        raise wrong(DISTRIBUTION, VERSION, EXTRA, got)


@torch.no_grad()
def _wake(model: Any) -> None:
    """Draw anew what would make the output nearly zero, 1e-9.

    The released initialisers draw all matrices with a deviation of 0.02, and scale what the blocks add by 0.01 and
    1e-6. Here matrices keep the variance of what goes in. That of the residual units adds up, and the last convolution
    takes it back, so that hardly a sample is clipped.
    """
    for name, tensor in model.named_parameters():
        if tensor.dim() > 1 and "embedding" not in name:
            nn.init.normal_(tensor, std=tensor[0].numel() ** -0.5)
        elif name.endswith((".gamma", ".scale", ".alpha", ".beta")):
            tensor.uniform_(0.1, 0.5)
    nn.init.normal_(model.code_embedding.weight)
    model.decoder[-1].conv.weight.mul_(0.01)
