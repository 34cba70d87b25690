"""The oracle: the released modules driven by the released streaming loop.

`Stock` is `Token2wav` of `token2wav.py` from the prompt on, with the device as a parameter where the release writes
`cuda`: `set_stream_cache`, `stream` and `fade_in_out`, statement by statement. What comes before (tokens and mels of a
recording) and after (PCM bytes) is the caller's. `reset` is what a live session does between turns: it copies back what
the caches were after the prompt.

`push` drives it by the events of either spec. Step-Audio 2 brings the tokens of each call, `chunk` and `last`. The live
units of MiniCPM-o 4.5, `first`, `unit` and `end`, are buffered behind three tokens of silence; while eight are there,
a call takes 28 at most and 25 of them leave, since the last three are only looked at.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cadencec.models.events import unknown
from cadencec.models.step_audio2.released import LOOK_AHEAD_TOKENS, SILENCE_TOKEN, Released, Size

CHUNK_TOKENS = 25
SHORTEST_CALL_TOKENS = 8
CALLS, UNITS = ("chunk", "last"), ("first", "unit", "end")
"""The events of the released loop, and those of the live rule."""

SCRATCH_STEPS = 16
SCRATCH_FRAMES = 1000
"""Of the released buffers, which hold the caches of up to 16 Euler steps; a longer prompt needs more frames."""


class Stock:
    """One session of the released decoder. Two on one model would overwrite each other's caches, as in the release."""

    variants = ("released",)

    def __init__(self, released: Released, size: Size, n_timesteps: int, frames: int, device: torch.device) -> None:
        """Take the modules. `frames` is the longest that the estimator's cache gets within a call."""
        _allocate(released.flow.decoder, size, max(SCRATCH_FRAMES, frames))
        self.flow, self.hift = released.flow.to(device), released.hift.to(device)
        self.prompt, self.n_timesteps, self.device = released.prompt.to(device), n_timesteps, device
        self.mel_cache_len = 8
        self.source_cache_len = int(self.mel_cache_len * 480)
        self.speech_window = torch.from_numpy(np.hamming(2 * self.source_cache_len)).to(device)
        self.stream_cache: dict[str, Tensor] = {}
        self.hift_cache_dict: dict[str, Tensor] = {}
        self._snapshot: dict[str, Tensor] = {}
        self._buffer = _silence()

    def published_name(self, name: str) -> str:
        """Return the name without the `generator.` of training, as the release loads `hift.pt`."""
        return name.replace("generator.", "") if name.startswith("hift.") else name

    def start(self, variant: str = "released") -> None:
        """Run the prompt, and keep what the caches are then."""
        self.set_stream_cache()
        self._snapshot = {name: cache.clone() for name, cache in self.stream_cache.items()}
        self._buffer = _silence()

    def push(self, event: str, **inputs: Any) -> list[dict[str, Tensor]]:
        """Let an event of either spec happen; return the `audio` (1, samples) of each call that it leads to."""
        if event not in (*CALLS, *UNITS, "turn"):
            raise unknown(event, (*CALLS, *UNITS, "turn"))
        if event in CALLS:
            calls = [(inputs["token"], event == "last")]
        else:
            calls = [] if event == "turn" else self._calls_of(inputs["token"], is_last=event == "end")
        heard = [{"audio": self.stream(token.to(self.device), last).cpu()} for token, last in calls]
        if event in ("last", "end", "turn"):
            self.reset()
        return heard

    def state(self) -> dict[str, Tensor]:
        """Return the caches by the paths of the adapter's leaves. The released buffers have rows for 16 steps."""
        held = {f"hift_{name}": cache for name, cache in self.hift_cache_dict.items()}
        for name, cache in self.stream_cache.items():
            if name.startswith("estimator"):
                held |= {f"{name}[{euler}]": cache[euler] for euler in range(self.n_timesteps)}
            else:
                held[name] = cache
        return held

    def _calls_of(self, token: Tensor, *, is_last: bool) -> list[tuple[Tensor, bool]]:
        """Buffer the tokens of a unit and return the calls that are due, each with whether it is a turn's last."""
        self._buffer = torch.cat([self._buffer, token], 1)
        calls = []
        while self._buffer.shape[1] >= SHORTEST_CALL_TOKENS:
            called = self._buffer[:, : CHUNK_TOKENS + LOOK_AHEAD_TOKENS]
            calls.append((called, False))
            self._buffer = self._buffer[:, min(CHUNK_TOKENS, called.shape[1] - LOOK_AHEAD_TOKENS) :]
        return [*calls, (self._buffer, True)] if is_last else calls

    def set_stream_cache(self) -> None:
        """Run the prompt and start from its caches."""
        token = self.prompt.token
        right_pad = torch.ones(1, 3, device=token.device, dtype=token.dtype) * 4218
        self.stream_cache = self.flow.setup_cache(
            torch.cat([token, right_pad], dim=1), self.prompt.mel, self.prompt.speaker, n_timesteps=self.n_timesteps
        )
        self._start_vocoder()

    def reset(self) -> None:
        """Begin the next turn from the caches after the prompt."""
        self.stream_cache = {name: cache.clone() for name, cache in self._snapshot.items()}
        self._start_vocoder()
        self._buffer = _silence()

    def _start_vocoder(self) -> None:
        self.hift_cache_dict = {
            "mel": torch.zeros(1, self.prompt.mel.shape[2], 0, device=self.device),
            "source": torch.zeros(1, 1, 0, device=self.device),
            "speech": torch.zeros(1, 0, device=self.device),
        }

    def stream(self, token: Tensor, last_chunk: bool = False) -> Tensor:
        """Decode `token` (1, n) int32 on the device; return `speech` (1, samples) float32."""
        is_cuda = self.device.type == "cuda"
        with torch.amp.autocast(self.device.type, dtype=torch.float32, enabled=is_cuda):
            chunk_mel, self.stream_cache = self.flow.inference_chunk(
                token=token,
                spk=self.prompt.speaker,
                cache=self.stream_cache,
                last_chunk=last_chunk,
                n_timesteps=self.n_timesteps,
            )
        self._cut()
        mel = torch.concat([self.hift_cache_dict["mel"], chunk_mel], dim=2)
        speech, source = self.hift(mel, self.hift_cache_dict["source"])
        if self.hift_cache_dict["speech"].shape[-1] > 0:
            speech = _fade_in_out(speech, self.hift_cache_dict["speech"], self.speech_window)
        self.hift_cache_dict = {
            "mel": mel[..., -self.mel_cache_len :].clone().detach(),
            "source": source[:, :, -self.source_cache_len :].clone().detach(),
            "speech": speech[:, -self.source_cache_len :].clone().detach(),
        }
        if not last_chunk:
            speech = speech[:, : -self.source_cache_len]
        result: Tensor = speech
        return result

    def _cut(self) -> None:
        prompt = self.prompt.mel.shape[1]
        att = self.stream_cache["estimator_att_cache"]
        if att.shape[4] > (prompt + 100):
            self.stream_cache["estimator_att_cache"] = torch.cat(
                [att[:, :, :, :, :prompt], att[:, :, :, :, -100:]], dim=4
            )
        att = self.stream_cache["conformer_att_cache"]
        if att.shape[3] > (prompt + 100):
            self.stream_cache["conformer_att_cache"] = torch.cat(
                [att[:, :, :, :prompt, :], att[:, :, :, -100:, :]], dim=3
            )


def _silence() -> Tensor:
    """Return what a live session's buffer holds when a turn begins."""
    return torch.full((1, LOOK_AHEAD_TOKENS), SILENCE_TOKEN, dtype=torch.int32)


def _fade_in_out(fade_in_mel: Tensor, fade_out_mel: Tensor, window: Tensor) -> Tensor:
    mel_overlap_len = int(window.shape[0] / 2)
    fade_in_mel = fade_in_mel.clone()
    fade_in_mel[..., :mel_overlap_len] = (
        fade_in_mel[..., :mel_overlap_len] * window[:mel_overlap_len]
        + fade_out_mel[..., -mel_overlap_len:] * window[mel_overlap_len:]
    )
    return fade_in_mel


def _allocate(decoder: Any, size: Size, frames: int) -> None:
    """Give the decoder the scratch that the released constructor gives it; at the released size, the same shapes."""
    att = (size.depth, 2, size.heads, frames, 2 * size.width // size.heads)
    cnn = (size.depth, 2, 2 * size.width, 2)
    decoder.att_cache_buffer = torch.zeros(SCRATCH_STEPS, *att)
    decoder.cnn_cache_buffer = torch.zeros(SCRATCH_STEPS, *cnn)
    decoder.estimator.att_cache_buffer = torch.zeros(att)
    decoder.estimator.cnn_cache_buffer = torch.zeros(cnn)
