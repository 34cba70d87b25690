"""A small token-to-audio tail with the kernel families that matter: embedding, products, attention with a sliding
cache, layer norm, convolutions and transposed ones, an inverse Fourier transform, overlap-add, and noise."""

import torch
from torch import Tensor, nn
from torch.nn import functional

TOKENS, CACHE, HEADS, WIDTH = 25, 100, 8, 512

State = dict[str, Tensor]


class Block(nn.Module):
    """Attention over the cache and the new rows, then a feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, rows, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, rows, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        attended = functional.scaled_dot_product_attention(q, keys, values).transpose(1, 2)
        x = x + self.out(attended.reshape(batch, rows, WIDTH))
        x = x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return x, keys[:, :, -CACHE:], values[:, :, -CACHE:]


class ToyTail(nn.Module):
    """`step` takes `tok` (2, 25) int64 and returns audio (2, 1612) float32."""

    def __init__(self, layers: int = 2, steps: int = 3) -> None:
        super().__init__()
        self.steps = steps
        self.embed = nn.Embedding(6561, WIDTH)
        self.upsample = nn.ConvTranspose1d(WIDTH, WIDTH, 4, 2, 1)
        self.mean, self.enter, self.leave = nn.Linear(WIDTH, 80), nn.Linear(160, WIDTH), nn.Linear(WIDTH, 80)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.widen, self.stretch = nn.Conv1d(80, 256, 7, padding=3), nn.ConvTranspose1d(256, 128, 16, 8, 4)
        self.narrow = nn.Conv1d(128, 18, 7, padding=3)
        self.register_buffer("window", torch.hann_window(16))

    def init_state(self) -> State:
        layers = len(self.blocks)
        return {name: torch.zeros(layers, 2, HEADS, CACHE, WIDTH // HEADS) for name in ("keys", "values")}

    def step(self, state: State, tok: Tensor) -> tuple[State, Tensor]:
        mean = self.mean(self.upsample(self.embed(tok).transpose(1, 2)).transpose(1, 2))
        mel = torch.randn_like(mean)
        for _ in range(self.steps):
            x, keys, values = self.enter(torch.cat([mel, mean], -1)), [], []
            for index, block in enumerate(self.blocks):
                x, k, v = block(x, state["keys"][index], state["values"][index])
                keys.append(k)
                values.append(v)
            mel = mel + self.leave(x) / self.steps
        return {"keys": torch.stack(keys), "values": torch.stack(values)}, self.vocode(mel)

    def vocode(self, mel: Tensor) -> Tensor:
        x = functional.leaky_relu(self.widen(mel.transpose(1, 2)), 0.1)
        x = self.narrow(functional.leaky_relu(self.stretch(x), 0.1))
        size, phase = torch.exp(x[:, :9].clamp(max=2)), torch.sin(x[:, 9:])
        spectrum = torch.complex(size * torch.cos(phase), size * torch.sin(phase))
        frames = torch.fft.irfft(spectrum, n=16, dim=1) * self.window[None, :, None]
        samples = (frames.shape[-1] - 1) * 4 + 16
        return functional.fold(frames, (1, samples), (1, 16), stride=(1, 4)).reshape(mel.shape[0], -1)


def build() -> ToyTail:
    torch.manual_seed(0)
    return ToyTail().eval().requires_grad_(False)
