"""The token2wav decoder with its state passed explicitly: the released modules, and its loops written again.

    token -> encode -> mu, x -> denoise -> x -> ... -> denoise -> x -> vocode -> audio

`encode` runs the conformer over the tokens and takes the noise that the flow starts from. `denoise` is one Euler step
of classifier-free guidance, on a batch of two. `vocode` makes a waveform and cross-fades it into the one before.

Two of the caches grow with every call until they are P + 100 frames long, P those of the prompt. What the released
loop then keeps are the first P and the last 100 frames:

    estimator, newest first    [ call k | call k-1 | ... ] [ last 100 of the prompt ]
    conformer, oldest first    [ prompt                  ] [ last 100 of the calls  ]

(The conformer's layers at token rate keep their tokens twice, one copy after the other, and are cut in the same way.)

The released decoder copies the estimator's caches into buffers of 1000 frames and 16 steps. Here each row is made as
long as it is and cut while it is written; once nothing grows any more, the frames that change are written in place.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from cadence_runtime.errors import TraceError
from cadencec.models.step_audio2.released import LOOK_AHEAD_TOKENS, MEL_BINS, SILENCE_TOKEN, Released

KEPT_FRAMES = 100
OVERLAP_FRAMES = 8
OVERLAP_SAMPLES = OVERLAP_FRAMES * 480
LONGEST_CALL_TOKENS = 28
CONFORMER_TAIL = 6

State = Mapping[str, Tensor]
Changed = dict[str, Tensor]
Caches = tuple[Tensor, Tensor]
"""The estimator's for one Euler step: attention (depth, 2, heads, frames, 2 x head size), and the last two inputs of
its convolutions (depth, 2, 2 x width, 2)."""


class StepAudio2(nn.Module):
    """The decoder for one voice. Weights have the names of `flow.pt` and `hift.pt` after `flow.` and `hift.`."""

    random_weights = True
    prompt_token: Tensor
    prompt_mel: Tensor
    speaker: Tensor
    speech_window: Tensor
    times: Tensor
    deltas: Tensor

    def __init__(self, released: Released, n_timesteps: int) -> None:
        super().__init__()
        self.flow, self.hift = released.flow, released.hift
        self.n_timesteps, self.prompt_frames = n_timesteps, released.prompt.mel.shape[1]
        silence = torch.full((1, LOOK_AHEAD_TOKENS), SILENCE_TOKEN, dtype=torch.int32)
        self._constant("prompt_token", torch.cat([released.prompt.token, silence], 1))
        self._constant("prompt_mel", released.prompt.mel)
        self._constant("speaker", released.prompt.speaker)
        self._constant("speech_window", torch.from_numpy(np.hamming(2 * OVERLAP_SAMPLES)))
        self._fit()
        self._schedule()

    @property
    def stages(self) -> dict[str, Callable[..., Any]]:
        """The stages by name."""
        return {"encode": self.encode, "denoise": self.denoise, "vocode": self.vocode}

    def published_name(self, name: str) -> str:
        """Return the name without the `generator.` of training, as the release loads `hift.pt`."""
        return name.replace("generator.", "") if name.startswith("hift.") else name

    def init_state(self) -> Changed:
        """Return the caches after the prompt, P frames long, and an empty vocoder's."""
        h, conformer_cnn, conformer_att = self.flow.encoder.forward_chunk(
            self.flow.input_embedding(self.prompt_token), last_chunk=False, cnn_cache=None, att_cache=None
        )
        mu, x = self._mu(h), self._noise(0, self.prompt_frames)
        cond = self.prompt_mel.transpose(1, 2).contiguous()
        att, cnn = self._caches(self.n_timesteps)
        for euler in range(self.n_timesteps):
            x = self._euler(euler, x, mu, cond, None, (att[euler], cnn[euler]))
        return {
            "conformer_att_cache": conformer_att,
            "conformer_cnn_cache": conformer_cnn,
            "estimator_att_cache": att,
            "estimator_cnn_cache": cnn,
            "hift_mel": h.new_zeros(1, MEL_BINS, 0),
            "hift_source": h.new_zeros(1, 1, 0),
            "hift_speech": h.new_zeros(1, 0),
        }

    def encode(self, state: State, token: Tensor, *, final: int) -> tuple[Changed, tuple[Tensor, Tensor]]:
        """Take `token` (1, tok) int32, of which the last three are only looked at unless `final`.

        Returns `mu` (2, 80, mel), once with and once without guidance, and the noise `x` (1, 80, mel).
        """
        self._check_length(token)
        h, cnn, att = self.flow.encoder.forward_chunk(
            self.flow.input_embedding(token),
            last_chunk=bool(final),
            cnn_cache=state["conformer_cnn_cache"],
            att_cache=state["conformer_att_cache"],
        )
        changed = {"conformer_att_cache": self._cut(att)}
        if cnn.shape[2] == CONFORMER_TAIL:  # one token alone leaves less, and nothing comes after it
            changed["conformer_cnn_cache"] = cnn
        return changed, (self._mu(h), self._noise(state["conformer_att_cache"].shape[3], h.shape[1]))

    def denoise(self, state: State, mu: Tensor, x: Tensor, *, euler: int) -> tuple[Changed, Tensor]:
        """Take Euler step `euler`, with its rows of the estimator's caches; return the new `x`."""
        old, cnn = state["estimator_att_cache"], state["estimator_cnn_cache"]
        att = self._room(old, x.shape[2])
        x = self._euler(euler, x, mu, torch.zeros_like(x), (old, cnn), (att, cnn))
        return {"estimator_att_cache": att, "estimator_cnn_cache": cnn}, x

    def vocode(self, state: State, x: Tensor, *, final: int) -> tuple[Changed, Tensor]:
        """Make a waveform of mel frames `x` (1, 80, mel); return `audio` (1, samples), whose last 3840 samples wait
        for the next call unless `final`."""
        mel = torch.concat([state["hift_mel"], x], dim=2)
        speech, source = self.hift(mel, state["hift_source"])
        if state["hift_speech"].shape[1] > 0:
            speech = self._cross_fade(speech, state["hift_speech"])
        tails = {
            "hift_mel": mel[..., -OVERLAP_FRAMES:],
            "hift_source": source[:, :, -OVERLAP_SAMPLES:],
            "hift_speech": speech[:, -OVERLAP_SAMPLES:],
        }
        # A plain clone keeps the strides of dims of size 1, and with them the length of this call: a key for each.
        changed = {name: tail.clone(memory_format=torch.contiguous_format) for name, tail in tails.items()}
        return changed, speech if final else speech[:, :-OVERLAP_SAMPLES]

    def _euler(self, euler: int, x: Tensor, mu: Tensor, cond: Tensor, old: Caches | None, new: Caches) -> Tensor:
        """`solve_euler_chunk` for one step: return the new `x` and fill the `new` caches."""
        speaker = self.flow.spk_embed_affine_layer(functional.normalize(self.speaker, dim=1))
        spread = _with_zeros(speaker)[:, :, None].expand(-1, -1, x.shape[2])
        given = torch.cat([x.repeat(2, 1, 1), mu, spread, _with_zeros(cond)], 1)
        t, dt = self.times[euler : euler + 1], self.deltas[euler : euler + 1]
        guided, free = self._estimate(given, t, old, new).chunk(2, dim=0)
        rate = self.flow.decoder.inference_cfg_rate
        result: Tensor = x + dt * ((1.0 + rate) * guided - rate * free)
        return result

    def _estimate(self, x: Tensor, t: Tensor, old: Caches | None, new: Caches) -> Tensor:
        """`DiT.forward_chunk`: x (2, 320, mel) at time t (1,) to (2, 80, mel)."""
        estimator, (att, cnn) = self.flow.decoder.estimator, new
        t = estimator.t_embedder(t.repeat(2)).unsqueeze(1)
        x = estimator.in_proj(x.transpose(1, 2))
        for row, block in enumerate(estimator.blocks):
            old_att, old_cnn = (None, None) if old is None else (old[0][row], old[1][row])
            x, new_cnn, new_att = block.forward_chunk(x, t, old_cnn, old_att, None)
            cnn[row] = new_cnn
            self._keep(att[row], new_att, old_att)
        result: Tensor = estimator.final_layer(x, t)
        return result.transpose(1, 2)

    def _keep(self, kept: Tensor, new: Tensor, old: Tensor | None) -> None:
        """Write what is kept of `new` (2, heads, frames, 2 x head size). In place of an old cache that is as long, the
        prompt's frames at the end stay as they are."""
        if kept.shape[2] == new.shape[2]:
            kept.copy_(new)
            return
        kept[:, :, : self.prompt_frames] = new[:, :, : self.prompt_frames]
        if old is None or old.shape[2] < kept.shape[2]:
            kept[:, :, self.prompt_frames :] = new[:, :, -KEPT_FRAMES:]

    def _cut(self, att: Tensor) -> Tensor:
        """Return what is kept of the conformer's cache (layers, 1, heads, frames, 2 x head size)."""
        if att.shape[3] <= self._longest:
            return att
        return torch.cat([att[:, :, :, : self.prompt_frames], att[:, :, :, -KEPT_FRAMES:]], dim=3)

    def _room(self, old: Tensor, frames: int) -> Tensor:
        """Return where an estimator's cache (..., frames, 2 x head size) goes: in place once it is as long as it
        gets."""
        length = min(old.shape[-2] + frames, self._longest)
        return old if length == old.shape[-2] else old.new_empty(*old.shape[:-2], length, old.shape[-1])

    @property
    def _longest(self) -> int:
        return self.prompt_frames + KEPT_FRAMES

    def _caches(self, steps: int) -> tuple[Tensor, Tensor]:
        """Return the estimator's caches after the prompt, to be filled."""
        blocks = self.flow.decoder.estimator.blocks
        attention, width = blocks[0].attn, blocks[0].conv.in_channels
        row = (len(blocks), 2, attention.num_heads, self.prompt_frames, 2 * attention.head_dim)
        return self.speaker.new_empty(steps, *row), self.speaker.new_empty(steps, len(blocks), 2, 2 * width, 2)

    def _mu(self, h: Tensor) -> Tensor:
        return _with_zeros(self.flow.encoder_proj(h).transpose(1, 2).contiguous())

    def _noise(self, offset: int, frames: int) -> Tensor:
        """Return the part of the noise table that a call at cache length `offset` starts from, at temperature 1."""
        noise: Tensor = self.flow.decoder.rand_noise
        return noise[:, :, offset : offset + frames] * 1.0

    def _cross_fade(self, speech: Tensor, before: Tensor) -> Tensor:
        """`fade_in_out`, whose window is float64."""
        speech, (rising, falling) = speech.clone(), self.speech_window.chunk(2)
        speech[:, :OVERLAP_SAMPLES] = speech[:, :OVERLAP_SAMPLES] * rising + before[:, -OVERLAP_SAMPLES:] * falling
        return speech

    def _constant(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, tensor, persistent=False)

    def _fit(self) -> None:
        """Cut tables to what calls can reach, and let go of scratch that the stages do not use."""
        decoder = self.flow.decoder
        frames = self._longest + 2 * LONGEST_CALL_TOKENS
        decoder.rand_noise = decoder.rand_noise[:, :, :frames].clone()
        for table in self._position_tables():
            middle = table.pe.shape[1] // 2
            table.pe = table.pe[:, middle - frames + 1 : middle + frames].clone()
        for module in (decoder, decoder.estimator):
            del module.att_cache_buffer, module.cnn_cache_buffer

    def _position_tables(self) -> tuple[Any, Any]:
        return self.flow.encoder.embed.pos_enc, self.flow.encoder.up_embed.pos_enc

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move what the released modules keep outside of parameters and buffers too, and make the times of the steps
        where they are used: the release computes them on its device."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for table in self._position_tables():
            table.pe = fn(table.pe)
        self.hift.stft_window = fn(self.hift.stft_window)
        self._schedule()
        return self

    @torch.no_grad()
    def _schedule(self) -> None:
        """Set `times` and `deltas` (n_timesteps,), as `forward_chunk` and `solve_euler_chunk` come to them."""
        span = torch.linspace(0, 1, self.n_timesteps + 1, device=self.speaker.device, dtype=self.speaker.dtype)
        span = 1 - torch.cos(span * 0.5 * torch.pi)
        t, dt = span[:1], span[1:2] - span[:1]
        times, deltas = [], []
        for step in range(1, self.n_timesteps + 1):
            times.append(t)
            deltas.append(dt)
            t = t + dt
            if step < self.n_timesteps:
                dt = span[step + 1 : step + 2] - t
        self._constant("times", torch.cat(times))
        self._constant("deltas", torch.cat(deltas))

    def _check_length(self, token: Tensor) -> None:
        if token.shape[1] > LONGEST_CALL_TOKENS:
            raise TraceError(
                "CAD3409",
                "the decoder's tables are too short for a call of the spec",
                expected=f"at most {LONGEST_CALL_TOKENS} tokens in a call, as in the released loop",
                got=f"{token.shape[1]} tokens",
            )


def _with_zeros(tensor: Tensor) -> Tensor:
    """Return a batch of two: the tensor, and zeros for the half without guidance."""
    return torch.cat([tensor, torch.zeros_like(tensor)], dim=0)
