"""Mimi, the codec of Moshi: its decoder, one frame of codes (80 ms) a step, with the streaming state passed explicitly.

The released modules keep their state in objects of their own, which each call finds and writes in place:

    MimiModel.decode(codes)      decoder_transformer...self_attn   _streaming_state.kv_cache.cache, .end_offset, .offset
                                 decoder.model.0                   _streaming_state.previous
                                 decoder.model.2                   _streaming_state.partial

`step` puts the tensors of a session into these objects, calls the released `decode`, and takes them out again. `stock`
is the released decoder in its own streaming mode, the oracle that this adapter must equal bit for bit.
"""

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cadencec.models.events import unknown
from cadencec.models.packages import entered, require

DISTRIBUTION, VERSION, EXTRA = "moshi", "0.2.13", "moshi"
ABSENT = ("sphn", "sounddevice", "bitsandbytes", "sentencepiece", "huggingface_hub", "huggingface_hub.errors")
"""What the package imports for sound cards, downloads and text, and the decoder never runs."""

ENCODER = ("encoder", "encoder_transformer", "downsample")
"""Modules of the release that have no part in decoding."""

State = dict[str, Tensor]

_SEED = 0


class Mimi:
    """`step` takes `codes` (1, codebooks, 1) int64 and returns `audio` (1, 1, 1920) float32."""

    random_weights = True

    def __init__(self, mimi: Any) -> None:
        # First, so that weights have their published names.
        self.decoder, self.decoder_transformer = mimi.decoder, mimi.decoder_transformer
        self.upsample, self.quantizer = mimi.upsample, mimi.quantizer
        self._mimi = mimi
        mimi.encoder = mimi.encoder_transformer = mimi.downsample = None  # they have no part in decoding
        self._begin()

    def to(self, device: torch.device) -> "Mimi":
        """Move the model to a device, as a module is moved; the objects that hold its state are made there anew."""
        self._mimi.to(device)
        self._mimi._stop_streaming()
        self._begin()
        return self

    def _begin(self) -> None:
        """Make the objects that hold the state of a session, and take the state out."""
        self._mimi.streaming_forever(1)
        states = self._mimi.get_streaming_state()
        self._states = list(states.values())
        self._slots = {path: slot for path, slot in _slots(states).items() if getattr(*slot).numel()}
        self._start = {path: getattr(*slot).clone() for path, slot in self._slots.items()}
        self._put(dict.fromkeys(self._start))

    def init_state(self) -> State:
        """Return the state of a session that has heard nothing: zeros, by the modules that hold them."""
        return {path: torch.zeros_like(value) for path, value in self._start.items()}

    def reset(self, state: State) -> State:
        """Return the state after `reset_streaming`, which leaves the rings as they are and begins to write anew."""
        return {path: value if path.endswith(".cache") else torch.zeros_like(value) for path, value in state.items()}

    def step(self, state: State, codes: Tensor) -> tuple[State, Tensor]:
        """Decode one frame. Most leaves are written in place, as in the released model."""
        switches = sys.modules["moshi.utils.compile"]  # an import would run the package's own `__init__`
        self._put(state)
        with switches.no_cuda_graph(), switches.no_compile():
            audio = self._mimi.decode(codes)
        after = {path: getattr(*slot) for path, slot in self._slots.items()}
        self._put(dict.fromkeys(after))
        for held in self._states:
            if hasattr(held, "offset_cpu"):
                held.offset_cpu = 0  # counts steps for models with other weights at each step, which this is not
        return after, audio

    def published_name(self, name: str) -> str | None:
        """Return the name itself, or None for what the encoder alone runs."""
        return None if name.partition(".")[0] in ENCODER else name

    def _put(self, values: Mapping[str, Tensor | None]) -> None:
        for path, (holder, name) in self._slots.items():
            setattr(holder, name, values[path])


@dataclass(frozen=True, slots=True)
class Size:
    """The configuration; the defaults are those of the release. `width` and `heads` are those of the transformer of
    `layers` layers that attends `context` rows, `filters` the last convolution's channels; smaller ones are for
    tests."""

    num_codebooks: int = 8
    layers: int = 8
    heads: int = 8
    width: int = 512
    filters: int = 64
    context: int = 250


def build(**size: int) -> Mimi:
    """Return the decoder with random weights, the same each time; options are those of `Size`. Raises TraceError
    CAD3408 without the package."""
    return Mimi(_released(Size(**size)))


class Stock:
    """One session of the released decoder, which keeps the state in objects of its own.

    `released` runs it as the package does: on a GPU with its own CUDA graphs, and with `torch.compile` for the rotary
    embedding. `graphs` leaves out the latter, whose kernels have other bits, and `plain` both.
    """

    def __init__(self, mimi: Any, device: torch.device) -> None:
        # First, so that weights have their published names.
        self.decoder, self.decoder_transformer = mimi.decoder, mimi.decoder_transformer
        self.upsample, self.quantizer = mimi.upsample, mimi.quantizer
        mimi.encoder = mimi.encoder_transformer = mimi.downsample = None  # they have no part in decoding
        self._mimi, self._device, self._variant = mimi.to(device), device, "plain"

    @property
    def variants(self) -> tuple[str, ...]:
        """The names of the variants; graphs are of CUDA alone."""
        return ("released", "graphs", "plain") if self._device.type == "cuda" else ("released", "plain")

    def published_name(self, name: str) -> str | None:
        """Return the name itself, or None for what the encoder alone runs."""
        return None if name.partition(".")[0] in ENCODER else name

    def start(self, variant: str = "plain") -> None:
        """Begin to stream anew; graphs of an earlier session go with its state."""
        self._variant = variant
        self._mimi._stop_streaming()
        self._mimi.streaming_forever(1)

    def push(self, event: str, **inputs: Tensor) -> list[dict[str, Tensor]]:
        """Decode a `frame` of `codes` (1, codebooks, 1), or begin another `turn`."""
        if event == "turn":
            self._mimi.reset_streaming()
            return []
        if event != "frame":
            raise unknown(event, ("frame", "turn"))
        switches = sys.modules["moshi.utils.compile"]  # an import would run the package's own `__init__`
        with ExitStack() as held:
            if self._variant != "released":
                held.enter_context(switches.no_compile())
            if self._variant == "plain":
                held.enter_context(switches.no_cuda_graph())
            return [{"audio": self._mimi.decode(inputs["codes"].to(self._device)).cpu()}]

    def state(self) -> dict[str, Tensor]:
        """Return what the released objects hold, by the paths of the adapter's leaves."""
        slots = _slots(self._mimi.get_streaming_state())
        held = {path: getattr(*slot) for path, slot in slots.items()}
        return {path: value for path, value in held.items() if value.numel()}


def stock(device: str = "cpu", **size: int) -> Stock:
    """Return a session of the released decoder on a device, with the options of `build`."""
    return Stock(_released(Size(**size)), torch.device(device))


def _slots(states: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """Return where each piece of state is held, an object and its attribute, by path; empty ones are left out."""
    found = {}
    for name, state in states.items():
        cache = getattr(state, "kv_cache", None)
        holders = [
            (name, state, "previous"),
            (name, state, "partial"),
            (name, state, "offset"),
            (name, state, "offsets"),
        ]
        holders += [(f"{name}.kv_cache", cache, "cache"), (f"{name}.kv_cache", cache, "end_offset")]
        for prefix, holder, attribute in holders:
            if hasattr(holder, attribute):
                found[f"{prefix}.{attribute}"] = (holder, attribute)
    return found


def _released(size: Size) -> Any:
    folder = require(DISTRIBUTION, VERSION, EXTRA) / "moshi"
    with entered({"moshi": folder, "moshi.models": folder / "models"}, ABSENT), torch.random.fork_rng(devices=[]):
        from moshi.models import loaders

        torch.manual_seed(_SEED)
        mimi = loaders.get_mimi(None, _config(loaders._mimi_config, size), num_codebooks=size.num_codebooks)
        _wake(mimi)
        return mimi.requires_grad_(False).eval()


def _config(released: Mapping[str, Any], size: Size) -> dict[str, Any]:
    config, width = deepcopy(dict(released)), size.width
    config["seanet"] |= {"dimension": width, "n_filters": size.filters}
    config["quantizer"] |= {"dimension": width // 2, "input_dimension": width, "output_dimension": width}
    config["transformer"] |= {"d_model": width, "num_heads": size.heads, "num_layers": size.layers}
    config["transformer"] |= {"context": size.context, "dim_feedforward": 4 * width}
    config["transformer"] |= {"input_dimension": width, "output_dimensions": [width]}
    return config


@torch.no_grad()
def _wake(mimi: Any) -> None:
    """Draw what the released initialisers leave at zero or one: the codebooks, and how often each code was used."""
    for module in mimi.quantizer.modules():
        if hasattr(module, "embedding_sum"):
            nn.init.normal_(module.embedding_sum)
            module.cluster_usage.uniform_(0.5, 1.5)
            module._initialized.fill_(1)
