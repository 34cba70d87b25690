"""Three stages, one of which repeats: four Euler steps, each with rows of its own of two regions, a number from a table
and a shift that is worked out of its time."""

import torch
from torch import Tensor, nn

STEPS, CACHE, WIDTH, ROWS = 4, 6, 16, 3

State = dict[str, Tensor]


class Euler(nn.Module):
    """`encode` takes `mel` (1, 3, 16) float32, `refine` runs once for each `step`, `emit` returns `y` (1, 3, 16)."""

    deltas: Tensor
    times: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(2 * WIDTH, WIDTH)
        self.enter, self.query, self.shift, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.register_buffer("times", torch.linspace(0, 1, STEPS + 1)[:STEPS])
        self.register_buffer("deltas", torch.tensor([0.1, 0.2, 0.3, 0.4]))
        self.stages = {"encode": self.encode, "refine": self.refine, "emit": self.emit}

    def init_state(self) -> State:
        return {"kv": torch.zeros(STEPS, 1, CACHE // 2, WIDTH), "gain": torch.ones(STEPS, WIDTH)}

    def encode(self, state: State, mel: Tensor) -> tuple[State, tuple[Tensor, Tensor]]:
        mu = self.enter(mel)
        return {}, (mu, mu * 0.5)

    def refine(self, state: State, mu: Tensor, x: Tensor, *, step: int) -> tuple[State, Tensor]:
        time = torch.sin(self.times[step : step + 1] * torch.arange(1, WIDTH + 1, device=x.device))
        kv = torch.cat([state["kv"], self.query(x)], 1)
        attended = self.query(x) @ kv.transpose(1, 2) @ kv * 0.1
        rate = self.mix(torch.cat([attended, mu], -1)) * state["gain"] + self.shift(time)
        gain = state["gain"] * 0.9 + rate[0, -1] * 0.1
        return {"kv": kv[:, -CACHE:], "gain": gain}, x + self.deltas[step : step + 1] * rate

    def emit(self, state: State, x: Tensor) -> tuple[State, Tensor]:
        return {}, self.out(x)


def build() -> Euler:
    torch.manual_seed(0)
    return Euler().eval().requires_grad_(False)
