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
        self.stages = {"head": self.head, "tail": self.tail}

    def init_state(self):
        r0 = torch.zeros(4, dtype=torch.float32)
        return {"r0": r0}

    def head(self, state, x):
        r0 = state["r0"]
        v1 = x * 1
        v2 = v1 + r0
        v3 = v2[:1].expand_as(v2)
        r0 = r0 + v3.sum(0)
        return {"r0": r0}, v3

    def tail(self, state, h):
        return {}, (h,)


def build():
    torch.manual_seed(0)
    return Model().eval().requires_grad_(False)
