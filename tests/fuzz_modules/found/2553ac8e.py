"""A random streaming module."""

import torch
from torch import nn

HIDDEN = {"count": 0, "values": []}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.conv = nn.Conv1d(4, 4, 3, padding=1)
        self.emb = nn.Embedding(8, 4)
        self.register_buffer("table", torch.linspace(-1, 2, 4))
        self.register_buffer("scratch", torch.zeros(4))
        self.register_buffer("hidden", torch.zeros(()))
        self.lazy, self.count = None, 0

    def init_state(self):
        r0 = torch.zeros(4, dtype=torch.float64)
        r0_b = r0[1:3]
        return {"r0": r0, "r0_b": r0_b}

    def step(self, state, x):
        r0 = state["r0"]
        r0_b = state["r0_b"]
        v1 = x * 1
        v2 = v1 + r0.float() + r0_b.float()[0]
        r0 = r0 + v2.sum(0).to(torch.float64)
        r0_b = r0[1:3]
        return {"r0": r0, "r0_b": r0_b}, (v2,)


def build():
    torch.manual_seed(0)
    return Model().eval().requires_grad_(False)
