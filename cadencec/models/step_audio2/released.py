"""The released modules of the token2wav decoder, built without what only their package's `__init__` imports.

`stepaudio2/__init__.py` pulls ONNX Runtime, torchaudio, s3tokenizer and more, none of which the decoder runs. So the
package is entered by a bare module object whose `__path__` is the installed folder, and the one `import onnxruntime`
of the flow, which nothing there uses, finds an empty module.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cadencec.models.packages import entered, require

DISTRIBUTION, VERSION, EXTRA = "stepaudio2-minicpmo", "0.1.1", "step-audio2"
PACKAGE = "stepaudio2"

MEL_BINS = 80
SPEAKER_SIZE = 192
VOCABULARY = 6561
LOOK_AHEAD_TOKENS = 3
SILENCE_TOKEN = 4218
NOISE_FRAMES = 50 * 600

_SEED = 0


@dataclass(frozen=True, slots=True)
class Size:
    """The configuration of the networks; the defaults are those of the release. `width` and `heads` are those of the
    encoder and of the estimator, `layers` the encoder's blocks at token rate and `up_layers` those at mel rate,
    `depth` the estimator's blocks, `channels` the vocoder's."""

    depth: int = 16
    heads: int = 8
    width: int = 512
    layers: int = 6
    up_layers: int = 4
    channels: int = 512


@dataclass(frozen=True, slots=True)
class Prompt:
    """A voice: `token` (1, P / 2) int32, `mel` (1, P, 80) float32, `speaker` (1, 192) float32."""

    token: Tensor
    mel: Tensor
    speaker: Tensor

    def to(self, device: torch.device) -> "Prompt":
        """Return the voice on a device."""
        return Prompt(self.token.to(device), self.mel.to(device), self.speaker.to(device))


@dataclass(frozen=True, slots=True)
class Released:
    """`flow` (CausalMaskedDiffWithXvec) and `hift` (HiFTGenerator) in evaluation mode, and a voice. The decoder of the
    flow has no scratch buffers yet: they are on torch's `meta` device."""

    flow: Any
    hift: Any
    prompt: Prompt


def make(size: Size, frames: int, longest: int) -> Released:
    """Return the released modules with random weights and a random voice of `frames` mel frames, the same each time.
    Tables of positions suffice for `longest` frames.

    The caller's generator is left alone. Raises TraceError CAD3408 without the package.
    """
    folder = require(DISTRIBUTION, VERSION, EXTRA) / PACKAGE
    with entered({PACKAGE: folder}, ["onnxruntime"]), torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        flow, hift = _flow(size), _hift(size)
        _wake(flow, hift)
        for layer in (flow.encoder.embed, flow.encoder.up_embed):
            layer.pos_enc.extend_pe(torch.zeros(1, longest))
        return Released(flow.eval(), hift.eval(), _prompt(frames))


def _flow(size: Size) -> Any:
    from stepaudio2.cosyvoice2.flow.decoder_dit import DiT
    from stepaudio2.cosyvoice2.flow.flow import CausalMaskedDiffWithXvec
    from stepaudio2.cosyvoice2.flow.flow_matching import CausalConditionalCFM
    from stepaudio2.cosyvoice2.transformer.upsample_encoder_v2 import UpsampleConformerEncoderV2

    encoder = UpsampleConformerEncoderV2(
        input_size=size.width,
        output_size=size.width,
        pre_lookahead_len=LOOK_AHEAD_TOKENS,
        num_blocks=size.layers,
        num_up_blocks=size.up_layers,
        attention_heads=size.heads,
        linear_units=4 * size.width,
        attention_dropout_rate=0.1,
    )
    estimator = DiT(
        in_channels=4 * MEL_BINS,
        out_channels=MEL_BINS,
        depth=size.depth,
        num_heads=size.heads,
        head_dim=size.width // size.heads,
        hidden_size=size.width,
    )
    with torch.device("meta"):  # 2 GB of scratch in the release, which its user allocates if it needs them
        decoder = CausalConditionalCFM(estimator=estimator)
    decoder.rand_noise = torch.randn([1, MEL_BINS, NOISE_FRAMES])
    return CausalMaskedDiffWithXvec(
        input_size=size.width,
        output_size=MEL_BINS,
        spk_embed_dim=SPEAKER_SIZE,
        vocab_size=VOCABULARY,
        encoder=encoder,
        decoder=decoder,
    )


def _hift(size: Size) -> Any:
    from stepaudio2.flashcosyvoice.modules.hifigan import ConvRNNF0Predictor, HiFTGenerator

    return HiFTGenerator(base_channels=size.channels, f0_predictor=ConvRNNF0Predictor(cond_channels=size.channels))


@torch.no_grad()
def _wake(flow: Any, hift: Any) -> None:
    """Initialise anew what would make outputs constant, or nearly so.

    The released initialisers leave the estimator's modulation and last layer at zero. Those of the vocoder lose two
    thirds of the variance with each convolution, which a gain of sqrt(3) gives back, and would leave all of it
    unvoiced: here the pitch lies on both sides of the threshold of 10 Hz.
    """
    for tensor in flow.parameters():
        if not tensor.any():
            nn.init.normal_(tensor, std=0.02)
    pitch = hift.f0_predictor
    for layer in (hift.conv_pre, *hift.ups, hift.conv_post, *pitch.condnet[::2]):
        layer.parametrizations.weight.original0.mul_(3**0.5)
    for layer in hift.source_downs:
        layer.weight.mul_(3**0.5)
    nn.init.normal_(pitch.classifier.weight, std=100 / pitch.classifier.in_features**0.5)


def _prompt(frames: int) -> Prompt:
    return Prompt(
        token=torch.randint(0, VOCABULARY, (1, frames // 2), dtype=torch.int32),
        mel=torch.randn(1, frames, MEL_BINS),
        speaker=torch.randn(1, SPEAKER_SIZE),
    )
